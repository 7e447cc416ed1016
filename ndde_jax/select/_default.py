"""The default strategy: closed forms choose, and networks judge where they explain more."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._axes import to_graph_axes
from .._checks import check_config, check_flag, refusal
from .._types import Checked, namespace_of, to_jax
from ..fit._newton import NetworkFit
from ..fit._prices import EBIC
from ..fit._refit import StrengthConfig
from ..regression._search import columns_price, log_choices
from ..regression._terms import FLOOR
from ..windows._flat import KnownData
from ._judge import Judged, judge
from ._leftover import beyond_chance
from ._screened import Screened
from ._splines import SplineGraph
from ._strategies import Splines
from ._strategy import AbstractStrategy, Recovery, recovery
from ._target_fit import TargetFit

# A network that describes a rate this much worse than bent splines, per window, may still need
# fewer of the inputs, and then be better.
COMPARABLE = 0.05


class Default(AbstractStrategy):
    """A strategy in which closed forms choose the inputs, and networks judge them where functions
    of these explain more.

    The default of [`recover`][ndde_jax.recover], and the first step of
    [`discover`][ndde_jax.discover]. Under `jit` and `vmap` closed forms decide alone, since the
    number of targets that need a network depends on the data.

    - `screen`: the search by closed forms, [`Splines`][ndde_jax.select.Splines].
    - `networks`: settings of the networks, [`StrengthConfig`][ndde_jax.fitting.StrengthConfig];
        None fits none.
    - `delays`: whether `discover` looks for delays between the candidate lags, for which it has the
        samples; windows alone know none.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strategy = ndde.select.Default(networks=None)
    print(ndde.recover(windows, strategy, key=jax.random.key(0)).graph[:, :, 0])
    ```
    """

    screen: Checked[AbstractStrategy] = eqx.field(default_factory=Splines)
    delays: Checked[bool] = eqx.field(static=True, default=True)
    networks: Checked[StrengthConfig | None] = eqx.field(default_factory=StrengthConfig)

    def __check_init__(self):
        if not isinstance(self.screen, Splines):
            raise refusal("screen", "ndde_jax.select.Splines(...)", self.screen)
        check_config(self.networks, StrengthConfig, "networks")
        check_flag(self.delays, "delays")

    def search(self, windows, price, key) -> Recovery:
        """Return the graph by splines, then by networks for the targets that need them."""
        if self.networks is None or namespace_of((windows, key)) is jnp:
            return self.screen.search(windows, price, key)
        price = EBIC() if price is None else price
        screened = Screened(windows)
        data, found = screened.data, screened.found
        if data.refused:
            return self.screen.search(windows, None, key)
        mask = np.moveaxis(np.asarray(found.graph), 0, 2).reshape(data.dim, -1)
        fits = [TargetFit(screened.design, data, j, own) for j, own in enumerate(mask)]
        judged = judged_by_networks(data, found, fits, price, self.networks, key)
        mask = np.stack(
            [m if row is None else row.mask for m, row in zip(mask, judged, strict=True)]
        )
        risk = [
            fit.corrected_risk() if row is None else row.risk
            for fit, row in zip(fits, judged, strict=True)
        ]
        paid = [np.nan if row is None else row.threshold for row in judged]
        graph = to_graph_axes(to_jax(mask.reshape(data.dim, windows.n_lags, data.dim)))
        left, price_paid = (to_jax(np.asarray(a, float), data.dtype) for a in (risk, paid))
        return recovery(windows, graph, found.evidence, left, price_paid, found)


def judged_by_networks(
    data: KnownData, screening: SplineGraph, regressions: list[TargetFit], price, config, key
) -> list[Judged | None]:
    """Return the judgement of networks for the targets that they describe better; None for the
    others.

    Where a closed form finds that functions of the inputs explain more, a network is fitted; unless
    it is clearly worse, networks judge edges added, dropped and exchanged.
    """
    n, n_inputs = max(float(data.weight.sum()), 1.0), data.inputs.shape[1]
    at_any_price = not isinstance(price, EBIC)

    def excess(j: int, found, degree: int) -> float:
        """Return how much worse a network describes a target than splines do, per window."""
        return float(network_criterion(found, degree, n, n_inputs) - regressions[j].criterion()) / n

    def needed(j: int, found) -> bool:
        slack = 0 if regressions[j].linear else COMPARABLE
        return bool(at_any_price or excess(j, found, len(regressions[j].inputs)) < slack)

    # Who asks for a price wants networks' strengths at it.
    asked = [True] * data.dim
    if not at_any_price:
        asked = beyond_chance([own.leftover() for own in regressions])
    inputs = [own.design.inputs for own in regressions]
    options = dict(key=key, asked=asked, needed=needed, inputs=inputs)
    rows = judge(data, screening, price, config, **options)
    return [
        row if row and (at_any_price or excess(j, row.fit, int(row.mask.sum())) < 0) else None
        for j, row in enumerate(rows)
    ]


def network_criterion(found: NetworkFit, degree: int, n: float, n_inputs: int) -> float:
    """Return a network's extended Bayesian information criterion, comparable with that of
    regressions.
    """
    weights = float(columns_price(n, float(found.n_effective)))
    return float(
        n * np.log(float(found.risk) + FLOOR) + weights + 2 * log_choices(n_inputs, degree)
    )
