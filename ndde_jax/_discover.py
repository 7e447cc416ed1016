"""The front door: from a table of measurements to a graph, a drift and a report."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._checks import check_coefficient, check_concrete, check_flag, check_key
from ._stages import Stages
from ._store import read, write
from ._types import Checked, RealScalarLike
from .check._identifiability import IdentifiabilityReport, identifiability_report
from .check._report import write_few_lines, write_report
from .check._verdict import Verdict, verdict
from .fit._fit import FitConfig, FitResult, fit
from .fit._fixed import fit_graph
from .fit._flow import fit_flow
from .fit.penalties import L0NDDE, AbstractMethod
from .measure._strength import SignalStrengths, StrengthConfig, signal_strengths
from .models._equations import equations
from .models._model import NeuralDDE
from .samples._lag_times import lags_in_samples
from .samples._prepare import STEPS, prepare_samples
from .samples._reading import read_samples
from .samples._samples import Samples
from .select._midpoint import midpoint_windows, windows_by_scheme
from .select._select import check_settings, chosen_search, select_graph
from .windows._choose_lags import choose_lags
from .windows._prior import PriorKnowledge
from .windows._windows import Windows

# Of a saved discovery, in its directory.
FILE = "discovery.npz"


@dataclasses.dataclass(frozen=True)
class Discovery:
    """What [`discover`][ndde_jax.discover] found; arrays are NumPy, `[source target lag]`.

    - `graph`: edges kept.
    - `scores`: signal strength of every candidate edge, a share of the variance of its target's
        rate of change.
    - `lower`: lower confidence bound of the strength on held-out blocks.
    - `samples`: the measurements, with `names`, `dt` and `time_unit`; `lags`, in samples, label the
        last axis.
    - `coefficient`, `search`: how the graph was chosen.
    - `model`: [`NeuralDDE`][ndde_jax.NeuralDDE] fitted on `graph`.
    - `windows`, `strengths`: where all of it comes from.
    - `fit`: of the gates, on these windows; None where splines searched, which need none.
    """

    samples: Samples
    lags: tuple[int, ...]
    coefficient: float | None
    search: str
    windows: Windows
    fit: FitResult | None
    strengths: SignalStrengths
    model: NeuralDDE
    graph: np.ndarray
    scores: np.ndarray
    lower: np.ndarray

    def __repr__(self) -> str:
        return write_few_lines(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variables."""
        return self.samples.names

    @property
    def dt(self) -> float:
        """Sampling interval, in `time_unit`."""
        return self.samples.dt

    @property
    def time_unit(self) -> str:
        """What `dt` counts; empty if unknown."""
        return self.samples.time_unit

    @property
    def level_lags(self) -> tuple[int, ...]:
        """`lags` as counted to the level that moves, at the next sample: one more each."""
        return tuple(lag + self.windows.step for lag in self.lags)

    @property
    def source_scores(self) -> np.ndarray:
        """A ranking of sources whatever the delay, `[source target]`: the strength of one at all
        its kept lags together, since neighbouring lags can stand in for one another, or of its best
        lag if that is more.
        """
        return np.maximum(np.asarray(self.strengths.source_value), self.scores.max(axis=2))

    @functools.cached_property
    def verdict(self) -> Verdict:
        """`"supported"`, `"with reservations"` or `"not supported"`, with its `reasons` and a
        `text` of five lines; see [`Verdict`][ndde_jax.Verdict].
        """
        return verdict(self)

    def report(
        self,
        identifiability: Checked[IdentifiabilityReport | None] = None,
        *,
        full: Checked[bool] = False,
    ) -> str:
        """The verdict in five lines, the edges and every finding with its remedy. With `full`, or
        what `identifiability` found, also data, choices, targets, warnings and identifiability: a
        text for a methods section.
        """
        return write_report(self, identifiability, full=full)

    def identifiability(self, *, key: PRNGKeyArray, **options) -> IdentifiabilityReport:
        """Refit on halves of the data, with edges replaced and with other differences, to see
        whether the data support the graph. Takes several times as long as the discovery.

        `options` are those of [`identifiability_report`][ndde_jax.identifiability_report]; give
        the `method`, `config` and `strength_config` of the discovery if it had any.
        """
        return identifiability_report(
            self.windows,
            key=key,
            strengths=self.strengths,
            model=self.model,
            coefficient=self.coefficient,
            names=self.names,
            search=self.search,
            **options,
        )

    def equations(self, *, key: PRNGKeyArray, digits: int = 3, **options) -> tuple[str, ...]:
        """The drift as formulas, one per variable, where a few polynomial terms explain a rate as
        well as these data can tell; `f(...)` elsewhere. See [`equations`][ndde_jax.equations].

        The graph is fitted once more for that, by [`fit_flow`][ndde_jax.fit_flow]; `options` are
        its own.
        """
        model = fit_flow(self.windows, self.graph, key=key, **options)
        return equations(model, self.names, digits=digits)

    def to_frame(self):
        """A pandas DataFrame with one row per candidate edge, strongest first; needs pandas.

        `lag` is that of the rate, which changes the variable from one sample to the next;
        `level_lag` that of the level it moves, counted to that next sample as tigramite does: one
        more, for every difference scheme (central ones have moved it by half of that a sample
        earlier). `delay` is `lag` in units of time.
        """
        import pandas as pd

        source, target, lag = np.indices(self.graph.shape).reshape(3, -1)
        frame = pd.DataFrame(
            {
                "source": np.asarray(self.names)[source],
                "target": np.asarray(self.names)[target],
                "lag": np.asarray(self.lags)[lag],
                "level_lag": np.asarray(self.level_lags)[lag],
                "delay": np.asarray(self.lags)[lag] * self.dt,
                "kept": self.graph.ravel(),
                "score": self.scores.ravel(),
                "lower": self.lower.ravel(),
            }
        )
        order = np.lexsort((-frame["score"], ~frame["kept"]))
        return frame.iloc[order].reset_index(drop=True)

    def plot(self):
        """A matplotlib Figure: strengths by lag, and the graph; needs matplotlib."""
        from .plot import plot_discovery

        return plot_discovery(self)

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory; [`Discovery.load`][ndde_jax.Discovery.load] reads it.

        All is in one file, `discovery.npz`, that `numpy.load` opens too. An earlier discovery there
        is replaced once the new one is written entirely.

        **Raises:** `OSError` if it cannot be written, for example because the disk is full; an
        earlier discovery is then as it was.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        write(directory / FILE, self)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Discovery":
        """Read what [`save`][ndde_jax.Discovery.save] wrote, bit by bit.

        **Raises:** `ValueError` if the directory does not hold a discovery, or one that is damaged,
        changed by hand, or of a version whose files this one does not read.
        """
        directory = Path(directory)
        try:
            found = read(directory / FILE, cls)
        except (FileNotFoundError, NotADirectoryError) as error:
            if (directory / "about.json").exists() and (directory / "arrays.npz").exists():
                raise ValueError(
                    f"{directory} holds a discovery in the format of an earlier version, which is "
                    "read no more; discover it again."
                ) from error
            raise ValueError(
                f"{directory} does not hold a saved discovery: {FILE} is missing."
            ) from error
        if problem := _inconsistency(found):
            raise ValueError(
                f"{directory / FILE} contradicts itself: {problem}. It was changed after it was "
                "saved; discover it again."
            )
        return found


def discover(
    x: Any,
    *,
    dt: Checked[RealScalarLike | None] = None,
    t: Any = None,
    lags: Checked[Iterable | None] = (0,),
    names: Checked[Sequence[str] | None] = None,
    scheme: Checked[str] = "auto",
    prior: Checked[PriorKnowledge | None] = None,
    time_unit: Checked[str] = "",
    treat: Checked[bool] = True,
    coefficient: Checked[RealScalarLike | None] = None,
    search: Checked[str] = "auto",
    method: Checked[AbstractMethod | None] = None,
    config: Checked[FitConfig | None] = None,
    strength_config: Checked[StrengthConfig | None] = None,
    key: Checked[PRNGKeyArray],
    progress: bool = False,
    directory: str | os.PathLike | None = None,
) -> Discovery:
    """Find which variables drive which, at which delay, and the drift.

    Cuts the measurements into lagged windows, selects a graph with gates, improves it edge by edge,
    measures by refitting what every edge is worth relative to it, keeps the edges that are worth
    their parameters, and fits the drift on what is kept.

    **Arguments:**

    - `x`: `[time dim]` or `[time]`; NumPy or JAX array, pandas Series or DataFrame (column names
        and time index are used), xarray DataArray or Dataset; or a list of arrays, several
        trajectories of one system. NaN marks missing values.
    - `dt`, `t`: sampling interval or time stamps, unless `x` carries them.
    - `lags`: candidate lags in samples, ascending, or times with their unit, `"6h"`, `"0:24h:2h"`
        or a list of such. The present state, 0, belongs in nearly always. None chooses them by
        [`choose_lags`][ndde_jax.choose_lags].
    - `names`: of the variables; by default those of `x`, or x0, x1, …
    - `scheme`: difference scheme, see [`lagged_windows`][ndde_jax.lagged_windows], or `"midpoint"`,
        see [`midpoint_windows`][ndde_jax.midpoint_windows]; then the search is repeated with what
        the first model says about the steps. `"auto"`, the default, decides by the noise and the
        lags ([`choose_scheme`][ndde_jax.choose_scheme]); the report says what and why.
    - `prior`: edges that cannot exist or must, from
        [`prior_knowledge`][ndde_jax.prior_knowledge].
    - `time_unit`: what `dt` counts, for labels and for known clocks (the year, the day).
    - `treat`: deal with seasons, irregular stamps, spikes and short gaps before, where a test finds
        them, as [`prepare_samples`][ndde_jax.prepare_samples] does; the report says what was done.
    - `coefficient`: λ: keep an edge iff it is worth more than λ/F of its target's variance. By
        default the rule of [`SignalStrengths.kept`][ndde_jax.SignalStrengths.kept].
    - `search`: `"gates"`, `"splines"` or `"auto"`, see [`select_graph`][ndde_jax.select_graph].
        Gates are fitted only where they search.
    - `method`, `config`: for the fit of the gates, by default [`L0NDDE`][ndde_jax.L0NDDE] and
        [`FitConfig`][ndde_jax.FitConfig] with their defaults.
    - `strength_config`: for the refits.
    - `key`: all randomness.
    - `progress`: show a progress bar over the stages.
    - `directory`: where to keep what a stage found as soon as it is finished. The same call, with
        the same data, settings and key, goes on from there after an interruption; with others it
        starts anew. The files may be deleted once the discovery is there.

    **Returns:** [`Discovery`][ndde_jax.Discovery].

    **Raises:** `ValueError` for unusable data, as [`lagged_windows`][ndde_jax.lagged_windows].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    found = ndde.discover(x, dt=0.1, names=("position", "velocity"), key=jax.random.key(0))
    print(found.report())
    ```
    """
    check_concrete(
        "discover",
        (x, dt, t, coefficient, key),
        "Make windows with lagged_windows; fit, search_lags and signal_strengths take them there.",
    )
    check_settings(method, config, strength_config, search)
    check_coefficient(coefficient)
    key = check_key(key)
    check_flag(treat, "treat")
    samples = read_samples(x, dt=dt, t=t, names=names, time_unit=time_unit)
    if treat:
        # Who asks for central differences means the samples as they are.
        own = scheme not in ("auto", "euler")
        samples = prepare_samples(samples, [step for step in STEPS if step != "clock" or not own])
    names = samples.names
    lags = choose_lags(samples)[0] if lags is None else lags_in_samples(lags, samples)
    windows = windows_by_scheme(samples, lags=lags, scheme=scheme, prior=prior)
    search = chosen_search(windows, search)

    midpoint = windows.scheme == "midpoint"
    total = (1 + (search == "gates")) * (1 + midpoint) + midpoint + 2
    inputs = (samples.values, samples.times, windows, names, str(scheme), prior, str(coefficient))
    inputs = (*inputs, search, method, config, strength_config, key)
    with Stages(total, progress=progress, directory=directory, inputs=inputs) as stage:
        first_key, again_key, pilot_key, strength_key, model_key = jr.split(key, 5)
        method = L0NDDE() if method is None else method

        def select(windows, key, where):
            """The graph, and the fit of the gates if they search."""
            fit_key, search_key = jr.split(key)
            result = None
            if search == "gates":
                fitted = lambda: fit(method, windows, config, key=fit_key)  # noqa: E731
                result = stage(f"fitting gates {where}", fitted)
            options = dict(search=search, config=strength_config, key=search_key)
            selected = lambda: select_graph(windows, result, **options)  # noqa: E731
            return stage(f"searching for a graph {where}", selected), result

        graph, result = select(windows, first_key, "at the samples")
        if midpoint:

            def between():
                model = fit_graph(windows, graph, config=strength_config, key=pilot_key)
                return midpoint_windows(samples, lags=windows.lags, model=model, prior=prior)

            windows = stage("interpolating", between)
            graph, result = select(windows, again_key, "between them")
        options = dict(config=strength_config, key=strength_key)
        strengths = stage(
            "measuring edges", lambda: signal_strengths(windows, graph=graph, **options)
        )
        kept = strengths.kept(coefficient)
        options = dict(config=strength_config, key=model_key)
        model = stage("fitting the drift", lambda: fit_graph(windows, kept, **options))
    return _discovery(samples, coefficient, search, windows, result, strengths, model)


def _discovery(samples, coefficient, search, windows, result, strengths, model) -> Discovery:
    return Discovery(
        samples=samples,
        lags=windows.lags,
        coefficient=None if coefficient is None else float(coefficient),
        search=search,
        windows=windows,
        fit=result,
        strengths=strengths,
        model=model,
        graph=np.asarray(strengths.kept(coefficient)),
        scores=np.asarray(strengths.value),
        lower=np.asarray(strengths.lower),
    )


def _inconsistency(found: Discovery) -> str:
    """What in a discovery contradicts the rest; empty if nothing does."""
    windows, strengths = found.windows, found.strengths
    shape = (windows.dim, windows.dim, windows.n_lags)
    if len(found.names) != windows.dim or len(set(found.names)) != windows.dim:
        return f"{len(set(found.names))} different names for {windows.dim} variables"
    if not found.lags == windows.lags == found.model.lags or len(found.lags) != shape[2]:
        return f"lags {found.lags} for windows at lags {windows.lags}"
    for name, edges in [
        *(("graph", found.graph), ("scores", found.scores), ("lower", found.lower)),
        *(("strengths", strengths.value), ("prior", windows.prior.allowed)),
    ]:
        if edges.shape != shape:
            return f"{name} of shape {edges.shape} for [source target lag] = {shape}"
    if windows.history.shape[1:] != (windows.n_lags, windows.dim):
        return f"histories of shape {windows.history.shape}"
    if not np.array_equal(found.scores, strengths.value, equal_nan=True):
        return "scores that are not those of the strengths"
    return ""
