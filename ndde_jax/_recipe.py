"""The settings of [`discover`][ndde_jax.discover] as one value."""

import equinox as eqx

from ._checks import check_choice, check_flag, check_kind, check_whole
from ._types import Checked, Settings, setting
from .fit._fit import FitConfig
from .fit.penalties import L0NDDE
from .models._families import Family
from .select._default import Default, as_strategy
from .select._strategies import AbstractStrategy, Gates
from .windows._stencils import STENCILS

SCHEMES = (*STENCILS, "midpoint", "auto")


class Recipe(Settings):
    """The settings of all steps of a discovery.

    Splines and products of inputs choose a graph in closed form. In each of `passes` the drift
    found so far corrects the windows for the length of a step. The `strategy` searches on the
    windows of the last pass. For any strategy, edges are measured, delays estimated, and the
    verdict and the report are made in the same way.

    - `scheme`: difference scheme, see [`lagged_windows`][ndde_jax.lagged_windows], or `"midpoint"`,
        see [`midpoint_windows`][ndde_jax.select.midpoint_windows]. `"auto"` chooses by the noise,
        and between `"euler"` and `"midpoint"` by which explains the data better.
    - `passes`: the most passes over the windows; 3, after which they no longer change on the
        systems tried. A pass with a larger residual than the one before ends the passes, and is not
        used.
    - `strategy`: the search, by default [`Default`][ndde_jax.select.Default], which has the
        settings of networks; `Default(networks=None)` uses closed forms alone.
    - `events`: whether edges are limited where a few events pass through all variables. An edge is
        then possible only between two variables that each come first for the other, see
        [`rank_sources`][ndde_jax.measure.rank_sources]. Delays are
        [`travel_time`][ndde_jax.measure.travel_time]s, and the strategy searches once, on forward
        differences, without networks if it can.
    - `family`: family of the final drift, see [`fit_drift`][ndde_jax.fit_drift]. By default the
        drift is the model that measured the edges: splines, or networks where networks judged the
        edges. Where only present states are candidates, it is [`Best`][ndde_jax.models.Best], by
        its flow: laws without delays are often polynomials, which then forecast best. Networks are
        fitted only where polynomials leave something to explain, and never if the strategy fits
        none.
    - `delays`: whether delays are estimated between the candidate lags; such a delay is one edge,
        listed at the nearest candidate lag. `Default(delays=False)` only searches without them.
    - `offsets`: whether every recording has its own mean, which is removed before windows are made
        (except for known inputs) and added again in forecasts; for several recordings whose levels
        differ for reasons outside the system. Off by default, because comparable levels are
        information, and the mean of a recording shorter than a few memory times of the system
        contains part of its dynamics.
    - `impute`: how often missing values, of long gaps too, are estimated by the drift found so far
        (see [`impute`][ndde_jax.Discovery.impute]) and the search is repeated on the completed
        samples, each time with a random draw of the missing values, so that gaps are as noisy as
        the rest. 0 by default: such values favour the drift they come from, so strengths of edges
        through them are too large. Use one or two rounds where gaps leave too few windows; the
        report says how many values were estimated and how far the last round moved them.
    - `confine`: whether the drift is pulled back far outside the data, so that simulations stay
        near them; see [`confine`][ndde_jax.confine].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    found = ndde.discover(x, dt=0.1, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
    print(found.graph[:, :, 0])
    ```
    """

    strategy: Checked[AbstractStrategy] = eqx.field(converter=as_strategy, default_factory=Default)
    family: Checked[Family | None] = setting(
        None, check_kind, kind=Family | None, expected="a family such as ndde_jax.models.Networks()"
    )
    scheme: Checked[str] = setting("auto", check_choice, options=SCHEMES)
    passes: Checked[int] = setting(3, check_whole)
    events: Checked[bool] = setting(True, check_flag)
    delays: Checked[bool] = setting(True, check_flag)
    confine: Checked[bool] = setting(True, check_flag)
    offsets: Checked[bool] = setting(False, check_flag)
    impute: Checked[int] = setting(0, check_whole, least=0)

    @classmethod
    def fast(cls) -> "Recipe":
        """Return a recipe of closed forms only: it fits no network, and compiles almost nothing."""
        return cls(strategy=Default(networks=None))

    @classmethod
    def paper(cls) -> "Recipe":
        """Return the paper's method: gates on networks, forward differences, and an edge for every
        open gate.
        """
        gates = Gates(penalty=L0NDDE.paper(), config=FitConfig.paper(), improve=False)
        return cls(strategy=gates, scheme="euler", passes=1, events=False, delays=False)
