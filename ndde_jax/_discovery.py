"""The result of a discovery: everything found, with the data and settings used."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._checks import check_key, check_kind, check_names, check_whole, short_repr
from ._recipe import Recipe
from ._report import Report, report_data, short_summary
from ._store import held, read, write
from ._types import Checked, concretely
from ._wording import listed
from .assess._assess import ErrorRates, Relations, error_rates, related_at_once, relations
from .assess._passed_on import passed_on_p_values
from .assess._reasons import reasons
from .check._finding import SAMPLES, Finding, findings_of
from .check._graph_rules import evidence_of
from .check._identifiability import IdentifiabilityReport, examine
from .check._refits import Finder
from .check._verdict import Verdict, sample_evidence, verdict
from .fit._prices import as_price
from .measure._stability import as_finder
from .models._model import AbstractDelayModel
from .samples._clock_inputs import clock_columns
from .samples._noise import measurement_errors
from .samples._prepare import treated_columns
from .samples._samples import Samples
from .samples._treatments import HELD
from .select._between import Record, states_at_delays
from .select._measured import SignalStrengths
from .select._screened import Screened
from .select._strategies import AbstractStrategy
from .use._backtest import WithBacktests
from .use._effects import WithEffects
from .use._ensemble import (
    RESAMPLES,
    Ensemble,
    diffusion_of,
    generator,
    histories_of,
    make_ensemble,
    present_slopes,
)
from .use._evidence import WithEvidence
from .use._export import WithExports, discovery_formulas
from .use._forecast import WithForecasts
from .use._impute import WithImputation
from .use._intervene import WithInterventions
from .use._left_out import AlternativeReading, alternative_reading, make_replicates
from .windows._windows import Windows, lagged_windows

# The file of a saved discovery, and its folder in what the command line writes.
FILE, FOLDER = "discovery.npz", "discovery"
# Nats up to which a flow may be a map after all: pairs at once must also be related in plain steps.
# Of 32 records of a host and its parasitoid, a nonlinear map, 7 were flows by 3 to 8 nats.
MAYBE_A_MAP = 10.0


@held("windows", "strengths", "model")
@dataclasses.dataclass(frozen=True, eq=False)
class Discovery(
    WithEffects,
    WithEvidence,
    WithForecasts,
    WithInterventions,
    WithBacktests,
    WithImputation,
    WithExports,
):
    """The result of [`discover`][ndde_jax.discover]; arrays are NumPy, `[source target lag]`.

    - `graph`: the kept edges.
    - `scores`: signal strength of every candidate edge, a share of the variance of its target's
        rate of change.
    - `lower`: lower confidence bound of the strength, by its spread over blocks of the record.
    - `held_out`: share of the variance of each rate of change left unexplained on held-out blocks
        of the record, given the graph, `[target]`; by closed forms on the inputs of the graph. 1 if
        the record is too short to fit a part of it.
    - `reading`: whether the samples are read as a `"map"`, from one to the next, or as a continuous
        `"flow"`; `"undecided"` if both are within 3 nats. The graph is then that of the likelier
        reading, or of a map that the search finds clearly likelier. Where values hardly persist
        from one sample to the next, it is a map's unless a flow is likelier by 3 nats per variable.
        `evidence` is the log
        likelihood of the flow over that of the map, in nats, prices included; NaN if they were not
        compared. On a smooth path with almost no noise, errors of interpolation are allowed for: a
        flow whose residual is up to ten times that of the map counts ten nats.
    - `samples`: the measurements, with `names`, `dt` and `time_unit`; `lags`, in samples, label the
        last axis.
    - `model`: the drift, an [`AbstractDelayModel`][ndde_jax.AbstractDelayModel]. `reads` are its
        inputs: those of `graph`; the lags around the delay of an edge that lies between two
        candidates; and, for a map, inputs that predict a target only because another variable
        passes them on within a sampling interval, which are no edges.
    - `delays`: estimated delay of every kept edge, in `time_unit`, NaN elsewhere, with 90 %
        intervals `delay_intervals`, `[source target lag 2]`, given the graph. Where a delay is not
        in `delay_resolved`, its interval is that of the grid of lags.
    - `ranking`: a ranking of sources at any delay, `[source target]`: the share of each source in
        explaining the rate of the target, by present or past values, on the scale of the explained
        variance; or the order in time, where events pass through all variables. Where past values
        count, sources of a target that its own past predicts count less. It also ranks
        sources without a kept edge. `source_scores` is the ranking corrected for chance, with what
        pairs share within a sampling interval.
    - `recipe`, `coefficient`: how the graph was chosen; `networks`: the variables whose edges were
        judged by networks instead of splines, `[target]`; `choices`: sentences on the decisions
        made on the way.
    - `windows`, `strengths`: the data and refits that all of this is computed from.
    - `length`: number of samples of a record that was read in chunks, of which `samples` are a
        part; None otherwise.

    Computed from `windows` and `graph` on first use, and part of the report:

    - `p_values`, `q_values`: of every candidate edge; `reasons`: why each was kept or not.
    - `sigma`: the noise matrix, for simulations of `model`.
    - `confounded`, `at_once`, `residual_correlation`: pairs of variables that arrows do not fully
        describe.
    """

    samples: Samples
    lags: tuple[int, ...]
    coefficient: float | None
    recipe: Recipe
    windows: Windows
    strengths: SignalStrengths
    model: AbstractDelayModel
    graph: np.ndarray
    reads: np.ndarray
    scores: np.ndarray
    lower: np.ndarray
    ranking: np.ndarray
    delays: np.ndarray
    delay_intervals: np.ndarray
    networks: np.ndarray
    held_out: np.ndarray
    reading: str
    evidence: float
    events: bool = False
    inputs: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    length: int | None = None

    def __post_init__(self):
        for name, value in vars(self).copy().items():
            if isinstance(value, np.ndarray):
                fixed = value.view()
                fixed.flags.writeable = False
                object.__setattr__(self, name, fixed)

    def __repr__(self) -> str:
        return short_summary(self)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.samples.names

    @property
    def dt(self) -> float:
        """The sampling interval, in `time_unit`."""
        return self.samples.dt

    @property
    def time_unit(self) -> str:
        """The unit of `dt`; empty if unknown."""
        return self.samples.time_unit

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings about record and graph: the reasons for the verdict, the most serious
        first, and notes.
        """
        return (*self.verdict.reasons, *self.verdict.notes)

    @property
    def moves_between_samples(self) -> bool:
        """Whether the drift is that of a flow, which moves between samples, and not of a map."""
        return self.events or self.windows.scheme != "euler" or self.reading == "flow"

    @property
    def level_lags(self) -> tuple[int, ...]:
        """The `lags` counted to the level that changes, at the next sample: one more each."""
        return tuple(lag + self.windows.step for lag in self.lags)

    @property
    def passed_on(self) -> np.ndarray:
        """The inputs of a map that are no edges, bool `[source target lag]`: they predict their
        target because another variable passes them on within a sampling interval. The drift `reads`
        them, and other candidates are tested given them.
        """
        return self.reads & ~self.graph & (not self.moves_between_samples)

    @functools.cached_property
    def _error_rates(self) -> ErrorRates:
        given, passed_on = self.graph | self.passed_on, self.passed_on
        found = error_rates(self.windows, given)
        if passed_on.any():
            undecided = self.reading == "undecided"
            beside = passed_on_p_values(self.windows, given, self.model, undecided=undecided)
            p = np.where(passed_on, np.fmax(found.p, beside), found.p)
            found = dataclasses.replace(found, p=p)
        return found

    @functools.cached_property
    def _relations(self) -> Relations:
        undecided = self.reading == "undecided"
        given = self.graph | self.passed_on
        late, complete = None, self.samples.regular and self.windows.partial is None
        if complete and not self.events:
            late = states_at_delays(self.samples, self.windows, self.graph, self.delays)
        found = relations(self.windows, given, self.model, undecided=undecided, late=late)
        path = self.windows.scheme == "midpoint" and self.evidence < MAYBE_A_MAP
        if complete and path and found.at_once.any():
            # States halfway through a step come from the drift of a path, which a map has not.
            steps = lagged_windows(self.samples, lags=self.lags, scheme="euler")
            related = related_at_once(steps, given)
            found = dataclasses.replace(found, at_once=found.at_once & related)
        found = found.of_links(self.graph.any(axis=2))
        found = found.of_held(treated_columns(self.samples, HELD))
        found = found.of_inputs(np.isin(np.asarray(self.names), self.inputs))
        # Where events pass through all variables, links give only the order in time.
        return found.of_events() if self.events else found

    @property
    def p_values(self) -> np.ndarray:
        """The probability that an input explains this much of its target's rate by chance, for
        every candidate edge, `[source target lag]`.

        Tests the input, as a linear term and two nonlinear ones, given the other inputs kept for
        the target, and given the source's own past and its inputs at that time, like the momentary
        conditional independence of [Runge et al. (2019)](https://doi.org/10.1126/sciadv.aau4996).
        The test is valid for autocorrelated variables, heavy tails and changing variances, also
        shared ones (a score test after [White (1980)](https://doi.org/10.2307/1912934)). Where most
        of the noise is common to all variables, like a market's, inputs that are not kept are also
        tested given the common factors at their lag, which each of them reveals. NaN where prior
        knowledge excludes an edge, or where there are too few windows. With missing values,
        kept edges are tested in all windows that have the values their test needs, other candidates
        in complete windows. For *kept* edges p-values are too small: they were chosen on the same
        data.
        """
        return self._error_rates.p

    @property
    def q_values(self) -> np.ndarray:
        """The false discovery rates by Benjamini and Hochberg over the `p_values` of all candidates
        between different variables, `[source target lag]`; NaN for a variable's own past.
        """
        return self._error_rates.q

    @property
    def source_scores(self) -> np.ndarray:
        """A ranking of sources at any delay, `[source target]`, including those without a kept
        edge. It is the `ranking` by past and present states; for pairs that are related `at_once`
        and have no edge, it is what they alone share within a sampling interval, as a share of the
        variance of the target's rate. Of the two directions of a pair, the one that is likelier by
        the shape of their distributions counts more ([Hyvärinen and Smith
        (2013)](https://www.jmlr.org/papers/v14/hyvarinen13a.html)).

        The `ranking` gives each source its share in the explained variance of the target's rate.
        Here a source without a kept edge counts at most half, and the less, the likelier chance
        explains as much by the p-values of all its lags and by a linear regression on all
        candidates. It counts a quarter of that if no other variable has an edge into the target or
        a q-value below .001, since the target may have no drivers. Pairs that are `confounded`
        count half.
        """
        risk = np.asarray(self.strengths.risk, float)
        ranking = self.ranking
        if not self.events:  # for events, only the order is known
            ranking = self._error_rates.weighed(ranking, self.graph)
        return self._relations.ranked(ranking, self.graph, risk)

    @property
    def residual_correlation(self) -> np.ndarray:
        """The correlation of the residuals of two rates, `[source target]`, symmetric: a ranking of
        pairs related within one sampling interval.
        """
        return self._relations.correlation

    @property
    def at_once(self) -> np.ndarray:
        """The pairs related within one sampling interval, bool `[source target]`, symmetric: the
        partial correlation of the residuals of their rates, given those of all others, exceeds .12
        and chance, by robust standard errors. Faster sampling would show their direction. A known
        input in such a pair is the driver; pairs of two `inputs` are omitted. With missing values,
        windows that have both rates and their inputs count.
        """
        return self._relations.at_once

    @property
    def confounded(self) -> np.ndarray:
        """The pairs that an unmeasured variable seems to drive, bool `[source target]`, symmetric:
        a link is kept between them, but the target does not follow what moves the source, or it
        follows the source's innovation or older past even given the source.
        """
        return self._relations.confounded

    @property
    def drifting(self) -> np.ndarray:
        """The inputs whose effect changes over the record, bool `[source target lag]`: the product
        of input and time explains the rate, at an error rate of .001 for all candidates together.
        """
        return self._relations.drifting

    @property
    def static(self) -> np.ndarray:
        """The variables determined by the present states of all others, to a hundredth of their
        variance on held-out blocks, bool `[target]`: derived quantities, and fast ones, whose rate
        follows from those of others.
        """
        return self._relations.static

    @property
    def delay_resolved(self) -> np.ndarray:
        """The kept edges whose delay was estimated between the candidate lags, bool
        `[source target lag]`; the interval of any other edge is that of the grid of lags.
        """
        return self.graph & (self.delays != self.dt * np.asarray(self.lags, float)[None, None])

    @functools.cached_property
    def reasons(self) -> np.ndarray:
        """The reason why each candidate edge was kept or not, as text, `[source target lag]`."""
        price = np.asarray(self.strengths.price(self.coefficient), float)
        prior = self.windows.prior
        allowed, required = np.asarray(prior.allowed), np.asarray(prior.required)
        found = self.graph, self.scores, self.lower, price, allowed, required, self.lags
        return reasons(*found, passed_on=self.passed_on, events=self.events)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The verdict: `"supported"`, `"with reservations"` or `"not supported"`, with its
        `reasons` and a `text` of five lines; see [`Verdict`][ndde_jax.check.Verdict].
        """
        return verdict(self)

    def report(
        self,
        identifiability: Checked[IdentifiabilityReport | None] = None,
        *,
        full: Checked[bool] = False,
    ) -> str:
        """Return the verdict in five lines, the edges and every finding with its remedy, as text.

        **Arguments:**

        - `identifiability`: the result of [`identifiability`][ndde_jax.Discovery.identifiability];
            the report then has its verdict, from all findings.
        - `full`: also include data, choices, targets and the conditions of the theorems, for use in
            a methods section; always on with `identifiability`.
        """
        full = full or identifiability is not None
        return report_data(self, identifiability, full=full).text(full=full)

    def report_data(self, identifiability: Checked[IdentifiabilityReport | None] = None) -> Report:
        """Return the content of the report as a value that can be written as text or HTML: its
        `text(full=True)` is that of [`report`][ndde_jax.Discovery.report], and `html(pictures={})`
        is the page that the command line writes.
        """
        return report_data(self, identifiability)

    def identifiability(
        self,
        *,
        key: Checked[PRNGKeyArray],
        seeds: Checked[int] = 2,
        strategy: Checked[AbstractStrategy | Callable | None] = None,
        progress: bool = False,
    ) -> IdentifiabilityReport:
        """Refit on halves of the data, with edges replaced and with other difference schemes, to
        check whether the data support the graph. Takes several times as long as the discovery.

        **Arguments:**

        - `key`: random key for all refits.
        - `seeds`: number of refits of each half, if they use random numbers; closed forms do not.
        - `strategy`: the search for graphs in refits; by default the one that found this graph.
        - `progress`: show a progress bar over the refits of halves.

        **Returns:** [`IdentifiabilityReport`][ndde_jax.check.IdentifiabilityReport]; its `verdict`
        combines that of this discovery with the findings of the refits.
        """
        check_whole(seeds, "seeds")
        strategy = as_finder(strategy, self._strategy())
        price = None
        if isinstance(strategy, AbstractStrategy):
            seeds = seeds if strategy.fits_networks else 1
            if self.coefficient is not None:
                price = as_price(self.coefficient, "coefficient")
        finder, key = Finder(strategy, price, seeds, progress), check_key(key)
        return examine(evidence_of(self), finder, key, findings_of(SAMPLES, sample_evidence(self)))

    def _strategy(self) -> AbstractStrategy:
        """Return the strategy that found this graph, with all the information it had."""
        given = (self.samples, self.recipe, self.reading, self.events)
        return self.recipe.strategy.on(with_samples(Screened(self.windows), *given))

    def update(self, more: Any, *, key: PRNGKeyArray | None = None) -> "Discovery":
        """Return the discovery of the longer record: these samples and those measured since.

        The longer record is treated, read and searched in the same way, at the same lags.

        **Arguments:**

        - `more`: `[time dim]`, the samples that follow the end of the (last) record at the same
            interval; or a list of arrays, further recordings. Frames and Samples are matched by
            column names, in any order. If both records have dates, samples that begin later than
            one interval after the last sample are a further recording.
        - `key`: random key for networks; by default `jax.random.key(0)`.

        **Raises:** `ValueError` for other variables, another interval, samples that the discovery
        already has, or a record of unevenly spaced samples.
        """
        from ._discover import update

        return update(self, more, key=key)

    def resample(
        self,
        *,
        resamples: Checked[int] = RESAMPLES,
        inputs: Sequence[str] = (),
        key: Checked[PRNGKeyArray | None] = None,
    ) -> Ensemble:
        """Return graphs and drifts selected on random halves of the data, in closed form.

        Effects, forecasts and interventions use the default ensemble. To use more or other halves,
        pass the result as their `ensemble`. The discovery itself does not change.

        **Arguments:**

        - `resamples`: number of halves, 40 by default.
        - `inputs`: the known inputs whose future values will be given. In a step they then move
            from one value to the next, and otherwise as the drift says; by default none.
        - `key`: random key of the draw; by default `jax.random.key(0)`, so that a discovery has one
            default ensemble.

        **Returns:** [`Ensemble`][ndde_jax.use.Ensemble]; its `share` is the share of halves that
        contain an edge, with neighbouring lags counted together.

        **Raises:** `ValueError` for irregular sampling, or too few samples.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        x = np.random.default_rng(0).normal(size=(300, 2)).cumsum(0) * 0.1
        found = ndde.discover(np.sin(x), dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.resample(resamples=10).share[:, :, 0])
        ```
        """
        check_whole(resamples, "resamples", least=2)
        key = jr.key(0) if key is None else check_key(key)
        names = check_names(inputs, None, "inputs") if len(inputs) else ()
        if not set(names) <= set(self.inputs):
            known = listed(self.inputs) or "none"
            raise ValueError(f"inputs must be known inputs ({known}); got {listed(names)}.")
        return make_ensemble(self, rng=generator(key), resamples=resamples, inputs=names)

    # These depend on the discovery alone, so they can be cached.
    @functools.cached_property
    def _members(self) -> Ensemble:
        """The default ensemble."""
        with concretely():
            return self.resample()

    @functools.cached_property
    def _members_given_inputs(self) -> Ensemble:
        """The default ensemble if the values of all known inputs are given."""
        with concretely():
            return self.resample(inputs=self._series_inputs)

    @property
    def _series_inputs(self) -> tuple[str, ...]:
        """The known inputs other than clocks, which move hardly differently from what the drift
        says.
        """
        clocks = clock_columns(self.samples.as_measured())
        return tuple(name for name in self.inputs if name not in clocks)

    @functools.cached_property
    def sigma(self) -> np.ndarray:
        """The noise matrix Σ of dX = G dt + Σ dW, `[dim dim]`, lower triangular, in units of the
        variables per root of `time_unit`: that of the default ensemble, without measurement errors.
        If the size of the noise depends on the state, it is the mean. For use in
        `ndde.solve_sdde(found.model, sigma=found.sigma, ...)`, at any step for a flow; for a map,
        whose noise comes once per sample, at the sampling interval.
        """
        ensemble, dt = self._members, self.dt
        if not self.moves_between_samples:
            return ensemble.noise.factor / np.sqrt(dt)
        with concretely():
            slopes = present_slopes(self.model, histories_of(ensemble))
        return np.linalg.cholesky(diffusion_of(ensemble.noise.covariance, slopes, dt))

    @functools.cached_property
    def _replicates(self) -> tuple:
        """The models of a parametric bootstrap of the learned drift, with the noise of the default
        ensemble.
        """
        with concretely():
            return make_replicates(self, self._members)

    @functools.cached_property
    def _alternative_reading(self) -> AlternativeReading:
        """The other reading of the record, if map or flow is undecided."""
        with concretely():
            return alternative_reading(self)

    def _given(self, ensemble: Any, inputs: tuple[str, ...] = ()) -> Ensemble:
        """Return the given ensemble, or the default one for known inputs whose values are given."""
        between = bool(inputs) and self.moves_between_samples
        if ensemble is None and inputs == self._series_inputs and between:
            return self._members_given_inputs
        if ensemble is None:
            with concretely():
                return self.resample(inputs=inputs) if between else self._members
        check_kind(ensemble, Ensemble, "ensemble", "what found.resample(...) returns")
        if not ensemble.rows.are_of(self):
            raise ValueError(
                "ensemble must be what resample(...) of this discovery returned; got one of other "
                "data or lags. Make it again with found.resample(...)."
            )
        if between and ensemble.step != "map" and set(ensemble.inputs) != set(inputs):
            raise ValueError(
                f"ensemble must be of the known inputs whose future is given, {listed(inputs)}; "
                f"got {listed(ensemble.inputs) or 'none'}. Make it again with "
                f"found.resample(inputs={list(inputs)})."
            )
        return ensemble

    def equations(
        self, *, key: PRNGKeyArray, digits: int = 3, form: str = "text", **options
    ) -> tuple:
        """Return the drift as formulas, one per variable, in order; known inputs have none. A rate
        that a few polynomial terms do not explain as well as the drift, as far as these data show,
        is `f(...)`.

        Sparse polynomials are fitted to the graph, and the Bayesian information criterion compares
        them with the learned drift.

        **Arguments:**

        - `key`: random key for starts, if `options` require networks.
        - `digits`, `form`: as for [`equations`][ndde_jax.equations]; `"text"`, `"latex"` or
            `"sympy"`.
        - `options`: options of [`fit_flow`][ndde_jax.fitting.fit_flow], which then decides instead:
            `simple_numbers=True`, or `family="polynomial"`, which writes every rate as a
            polynomial.
        """
        return discovery_formulas(self, key=key, digits=digits, form=form, options=options)

    def to_frame(self):
        """Return a pandas DataFrame with one row per candidate edge, strongest first.

        `lag` is that of the rate, which changes the variable from one sample to the next.
        `level_lag` is counted to the level at that next sample, as in tigramite: one more, for
        every difference scheme (central ones have moved it by half of that a sample earlier).
        `delay` is `lag` in units of time. `delay_estimate`, with its 90 % interval from `delay_low`
        to `delay_high`, is that of `delays`, which may lie between the candidates. `p` and `q` are
        from `p_values` and `q_values`, and `reason` says why a candidate was kept or not.
        """
        import pandas as pd

        names, lags, level_lags = map(np.asarray, (self.names, self.lags, self.level_lags))
        source, target, lag = np.indices(self.graph.shape).reshape(3, -1)
        places = dict(source=names[source], target=names[target], lag=lags[lag])
        places |= dict(level_lag=level_lags[lag], delay=lags[lag] * self.dt)
        low, high = np.moveaxis(self.delay_intervals, -1, 0)
        found = dict(kept=self.graph, score=self.scores, lower=self.lower)
        found |= dict(delay_estimate=self.delays, delay_low=low, delay_high=high)
        found |= dict(p=self.p_values, q=self.q_values, reason=self.reasons)
        frame = pd.DataFrame(places | {name: cube.ravel() for name, cube in found.items()})
        order = np.lexsort((-frame["score"], ~frame["kept"]))
        return frame.iloc[order].reset_index(drop=True)

    def plot(self):
        """Return a matplotlib Figure with strengths by lag, and the graph; needs matplotlib."""
        from .plot import plot_discovery

        return plot_discovery(self)

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory; [`Discovery.load`][ndde_jax.Discovery.load] reads it.

        Everything is in one file, `discovery.npz`, which `numpy.load` can also open. An earlier
        discovery there is replaced once the new one is complete.

        **Raises:** `OSError` if it cannot be written, for example because the disk is full; an
        earlier discovery is then unchanged.
        """
        directory = Path(directory)
        if directory.is_file():
            raise FileExistsError(f"save writes to a directory; {directory} is a file.")
        directory.mkdir(parents=True, exist_ok=True)
        write(directory / FILE, self)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Discovery":
        """Read a discovery exactly as [`save`][ndde_jax.Discovery.save] wrote it: from its
        directory, from a directory that `ndde-jax discover` wrote, or from a file of
        [`discover_many`][ndde_jax.discover_many].

        **Raises:** `ValueError` if the directory holds no discovery, or one that is damaged,
        changed by hand, or of a version whose files this version does not read.
        """
        directory = Path(directory)
        inside = directory / FILE, directory / FOLDER / FILE
        file = directory if directory.is_file() else next(filter(Path.exists, inside), inside[0])
        try:
            found = read(file, cls)
            for field in dataclasses.fields(cls):
                value = getattr(found, field.name)
                if field.type is np.ndarray and not isinstance(value, np.ndarray):
                    raise ValueError(
                        f"{file} was changed by hand: {field.name} must be an array; got "
                        f"{short_repr(value)}. Save the discovery again."
                    )
            found.__post_init__()
            return found
        except (FileNotFoundError, NotADirectoryError) as error:
            why = f"does not hold a saved discovery: {FILE} is missing."
            raise ValueError(f"{directory} {why}") from error
        except ValueError as error:
            if file.suffix == Path(FILE).suffix:
                raise
            remedy = "give the directory that `discover` wrote."
            raise ValueError(f"{directory} is not a saved discovery; {remedy}") from error


def with_samples(
    screened: Screened, samples: Samples, recipe: Recipe, reading: str, events: bool
) -> Screened:
    """Return windows with further information from their samples: measurement errors, and values
    between the candidate lags if delays may lie there.
    """
    windows = screened.windows
    is_map = windows.scheme == "euler" and reading != "flow"  # whose delays are whole
    between = recipe.delays and samples.regular and not (events or is_map)
    record = Record.of(samples, windows) if between else None
    return screened.knowing(errors=measurement_errors(samples), record=record)
