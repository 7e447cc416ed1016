"""The methods of a discovery that use it: all work on what the discovery holds."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._checks import check_key, check_whole, refusal
from .._types import Checked
from . import _export
from ._backtest import Backtest, backtest
from ._effects import Effects, effects
from ._ensemble import RESAMPLES, Ensemble, make_ensemble
from ._evidence import Influence, Validation, influence, validate
from ._forecast import Forecast, forecast
from ._impute import Imputed, impute
from ._intervene import Intervention, intervene
from ._parametric_bootstrap import make_echoes, spread_by_echoes


class Usable:
    """The effects, forecasts and interventions of a discovery; a base of
    [`Discovery`][ndde_jax.Discovery].
    """

    def resample(
        self, *, resamples: Checked[int] = RESAMPLES, key: Checked[PRNGKeyArray | None] = None
    ) -> Ensemble:
        """Return graphs and drifts selected on random halves of the data, in closed form.

        Effects, forecasts and interventions use the default ensemble; pass the result as their
        `ensemble` for more halves, or others. The discovery itself stays as it is.

        **Arguments:**

        - `resamples`: number of halves, 40 by default.
        - `key`: random key of the draw; by default `jax.random.key(0)`, so that a discovery has one
            ensemble.

        **Returns:** [`Ensemble`][ndde_jax.use.Ensemble]; its `share` says how many halves contain
        an edge, neighbouring lags counted together.

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
        return make_ensemble(self, rng=_generator(key), resamples=resamples)

    # What follows depends on the discovery alone, so that keeping it changes no answer.
    @functools.cached_property
    def _members(self) -> Ensemble:
        """The default ensemble."""
        with jax.ensure_compile_time_eval():
            return self.resample()

    @functools.cached_property
    def _echoed(self) -> tuple:
        """The parametric bootstrap models of the learned drift, with the noise of the default
        ensemble.
        """
        with jax.ensure_compile_time_eval():
            return make_echoes(self, self._members)

    def _given(self, ensemble: Any) -> Ensemble:
        """Return the ensemble that was given, or the default."""
        if ensemble is None:
            return self._members
        if not isinstance(ensemble, Ensemble):
            raise refusal("ensemble", "what found.resample(...) returns", ensemble)
        return ensemble

    def effects(self, *, ensemble: Checked[Ensemble | None] = None) -> Effects:
        """Return the effect of every kept edge: sign, mean slope, curve, and total effects along
        paths, with intervals that include the choice of the graph.

        **Arguments:**

        - `ensemble`: what [`resample`][ndde_jax.Discovery.resample] returned; by default that of 40
            halves.

        **Returns:** [`Effects`][ndde_jax.use.Effects].

        **Raises:** `ValueError` for irregular sampling, or too few samples.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            rate = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
            x[k + 1] = x[k] + 0.2 * rate + 0.3 * rng.normal(size=2)
        found = ndde.discover(x, dt=0.2, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.effects())
        ```
        """
        return effects(self, self._given(ensemble), self._echoed)

    def influence(
        self,
        source: Checked[str | int],
        target: Checked[str | int],
        *,
        lag: Checked[int | None] = None,
    ) -> Influence:
        """Return which windows decide an edge: the contribution of each to its strength, and the
        loss without it; in closed form, by splines on the graph.

        **Arguments:**

        - `source`, `target`: variables, by name or index.
        - `lag`: in samples; by default all kept lags of the source together.

        **Returns:** [`Influence`][ndde_jax.use.Influence].

        **Raises:** `ValueError` for an edge that was not kept.

        Influence of an observation on a minimum: Cook and Weisberg, *Residuals and Influence in
        Regression* (1982).

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            x[k + 1] = 0.8 * x[k] + [0.4 * x[k, 1], 0] + 0.3 * rng.normal(size=2)
        found = ndde.discover(
            x, dt=0.2, lags=(0,), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
        )
        made = found.influence(1, 0)
        print(made)
        ```
        """
        return influence(self, source, target, lag)

    def forecast(
        self,
        horizon: Checked[int | str] = 24,
        *,
        paths: Checked[int] = 200,
        key: Checked[PRNGKeyArray],
        history: Any = None,
        inputs: Checked[Mapping | None] = None,
        ensemble: Checked[Ensemble | None] = None,
    ) -> Forecast:
        """Return paths from the end of the record on, as they would be measured.

        Each path follows one member of an ensemble of drifts (see
        [`resample`][ndde_jax.Discovery.resample]), with noise drawn from what one-step forecasts of
        this very simulator leave on the data, so that one step is calibrated by construction: with
        its covariance between variables, its tails, its dependence on the state where the data
        clearly show one, and measurement error apart from it where neighbouring residuals clearly
        show that.

        **Arguments:**

        - `horizon`: in samples, or a time with its unit, such as "6h"; 24 samples by default. A
            long one reports the memory it needs and shows a progress bar.
        - `paths`: number of paths; with 200, the default, the ends of a 90 % interval vary by a
            tenth of its width.
        - `key`: for the noise.
        - `history`: where to start, physical units, `[time dim]`, newest last, at the interval of
            the data and at least the largest lag and one sample long; or
            [`Samples`][ndde_jax.Samples], whose times say where in a season it ends. By default the
            end of the (last) record. Seasons and trends that were removed go on in the forecast.
        - `inputs`: future values `[horizon]` of known inputs by name: of variables that the prior
            lets no other drive.
        - `ensemble`: what [`resample`][ndde_jax.Discovery.resample] returned; by default that of 40
            halves.

        **Returns:** [`Forecast`][ndde_jax.use.Forecast].

        **Raises:** `ValueError` for irregular sampling, a unit that cannot be compared with that of
        the data, a history that is too short or not finite, and paths that this machine has no
        memory for.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        t = np.arange(400) * 0.1
        x = np.stack([np.sin(t), np.cos(t)], 1)
        found = ndde.discover(x, dt=0.1, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        f = found.forecast(20, key=jax.random.key(1))
        print(f.median[-1], np.sin(f.ts[-1]))
        ```
        """
        options = dict(horizon=horizon, paths=paths, key=key, history=history, inputs=inputs)
        return forecast(self, self._given(ensemble), **options)

    def intervene(
        self,
        values: Checked[Mapping | None] = None,
        *,
        horizon: Checked[int | str] = 24,
        start: Checked[int | str] = 0,
        stop: Checked[int | str | None] = None,
        paths: Checked[int] = 200,
        key: Checked[PRNGKeyArray],
        shift: Checked[Mapping | None] = None,
        cut: Checked[Sequence | None] = None,
        scale: Checked[Mapping | None] = None,
        delay: Checked[Mapping | None] = None,
        inputs: Checked[Mapping | None] = None,
        history: Any = None,
        ensemble: Checked[Ensemble | None] = None,
    ) -> Intervention:
        """Return a future with and without an intervention on the system, on the same noise.

        The intervention holds at samples k with `start` ≤ k < `stop`. Sample 0 is the present, and
        `ts` begins one sample later. Several changes may be made at once.

        **Arguments:**

        - `values`: variables that are set, in measured units, by name or index: a number,
            `[horizon]` numbers, or a function of time (as in `ts`), or of time and state `[dim]`.
            With `start` 0 the present is set as well.
        - `shift`: amounts, one or `[horizon]`, added to the values of a variable that all *others*
            read, now and later, and to its recorded values; its own drift reads it unshifted. For a
            variable that is read as its logarithm or by its ranks, the amounts are in these units.
        - `cut`: edges (source, target), or (source, target, lag): the target reads the source at
            its mean over the record.
        - `scale`: edges to factors of their effect: the difference between the rate with the source
            and the rate with the source at its mean. 0 is the same as a cut.
        - `delay`: edges to new delays in samples (or with a unit).
        - `horizon`, `start`, `stop`: in samples, or times with their unit, such as "6h".
        - `paths`, `key`, `inputs`, `history`, `ensemble`: as for
            [`forecast`][ndde_jax.Discovery.forecast].

        **Returns:** [`Intervention`][ndde_jax.use.Intervention], whose `notes` say where the answer
        rests on an edge that fewer than half of the resamples contain, leaves the range of the
        data, or may miss a hidden driver. Numbers in `values`, `shift` and `scale` may be traced:
        `jax.grad` of any outcome with respect to them works, and `notes` are then left out.

        **Raises:** `ValueError` for an unknown variable, an edge that is not in the graph, or
        nothing to do.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            rate = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
            x[k + 1] = x[k] + 0.2 * rate + 0.3 * rng.normal(size=2)
        found = ndde.discover(
            x, dt=0.2, names=("heat", "sun"), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
        )
        g = found.intervene({"sun": 1.0}, horizon=30, key=jax.random.key(1))
        print(g.effect()[-1])  # about what the sun is changed by, for both
        ```
        """
        # A forecast is corrected for what its steps miss of the data; what a change does is not.
        members = spread_by_echoes(self, self._given(ensemble), self._echoed)
        return intervene(
            self, members, values, horizon=horizon, start=start, stop=stop, paths=paths,
            key=key, shift=shift, cut=cut, scale=scale, delay=delay, inputs=inputs,
            history=history,
        )  # fmt: skip

    def backtest(
        self,
        horizon: Checked[int | str] = 24,
        *,
        data: Any = None,
        origins: Checked[int] = 20,
        paths: Checked[int] = 100,
        key: Checked[PRNGKeyArray],
        rivals: Checked[Sequence[str]] = ("persistence", "climatology", "VAR"),
        at: Checked[Sequence[int] | None] = None,
    ) -> Backtest:
        """Score forecasts from many origins against later values, beside those of rivals that know
        the same record and the same lags.

        **Arguments:**

        - `horizon`: in samples, or a time with its unit.
        - `data`: to forecast, `[time dim]` at the interval of the discovery's, or
            [`Samples`][ndde_jax.Samples] with times, which seasons that were removed call for. By
            default its own record, which the drift has seen: then scores flatter it and the
            autoregression alike. Data and scores are in measured units; rivals read logarithms
            where the discovery does.
        - `origins`: evenly spread, 20 by default.
        - `paths`: of each forecast, 100 by default.
        - `key`: for the noise.
        - `rivals`: `"persistence"`, steps of the record, summed up from the present;
            `"climatology"`, values of the record; `"VAR"`, least squares of increments on all lags;
            and, if asked for, `"PySINDy"` (`pip install "ndde_jax[peers]"`), polynomials of all
            lags, with the noise of its residuals, which it does not have by itself.
        - `at`: steps ahead to score, in samples; 1, 2, 5, 10, 20, … and the last by default.

        **Returns:** [`Backtest`][ndde_jax.use.Backtest], a table of CRPS, coverage of 90 %
        intervals and energy score by step.

        **Raises:** `ValueError` if the data are too short for a history, the horizon and as many
        origins, for an unknown rival or a step beyond the horizon; `ImportError` without PySINDy.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((600, 1))
        for k in range(599):
            x[k + 1] = 0.8 * x[k] + rng.normal()
        found = ndde.discover(x[:400], dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.backtest(5, data=x[400:], key=jax.random.key(1)))
        ```
        """
        return backtest(
            self, self._members, horizon=horizon, data=data, origins=origins, paths=paths, key=key,
            rivals=rivals, at=at,
        )  # fmt: skip

    def impute(
        self, *, draws: Checked[int] = 0, key: Checked[PRNGKeyArray | None] = None
    ) -> Imputed:
        """Estimate missing values, in long gaps too, by the learned system: those that minimise the
        residuals of its equations, in units of their noise, given everything that was measured.

        Each value enters the equations as present, past and next state. Values that gap filling had
        estimated are estimated anew. Stretches through which no path of the system leads are left
        as they were, and so are variables of which a recording has no value. Values that no step
        leads to, such as the first of a record, are held to the mean and the variance of the
        variable.

        **Arguments:**

        - `draws`: completed samples to draw for multiple imputation, none by default.
        - `key`: for draws; by default `jax.random.key(0)`.

        **Returns:** [`Imputed`][ndde_jax.use.Imputed], in measured units.
        [`Recipe(impute=...)`][ndde_jax.Recipe] repeats the discovery on the completed samples.

        **Raises:** `ValueError` for irregular sampling, or too few complete steps.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 1))
        for k in range(399):
            x[k + 1] = 0.9 * x[k] + rng.normal()
        x[200:210] = np.nan
        found = ndde.discover(x, dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        made = found.impute()
        print(made.samples.values[0][200:210, 0], made.errors[0][200:210, 0])
        ```
        """
        check_whole(draws, "draws", least=0)
        key = jr.key(0) if key is None else check_key(key)
        return impute(self, self._members, draws=draws, rng=_generator(key))

    def validate(self, other: Any, *, dt: Any = None, t: Any = None) -> Validation:
        """Return what of the discovery holds on another record: the share of each rate that the
        learned drift explains, unchanged, and which edges are worth their price there.

        **Arguments:**

        - `other`: a record of the same variables at the same interval, as `discover` takes it;
            seasons and trends that were removed before the discovery must be removed from it, too.
        - `dt`, `t`: its sampling interval or time stamps; by default that of the discovery.

        **Returns:** [`Validation`][ndde_jax.use.Validation].

        **Raises:** `ValueError` for other variables or another sampling interval, and for records
        that are too short, as [`lagged_windows`][ndde_jax.lagged_windows].

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((800, 2))
        for k in range(799):
            x[k + 1] = 0.8 * x[k] + [0.4 * x[k, 1], 0] + 0.3 * rng.normal(size=2)
        found = ndde.discover(x[:400], dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.validate(x[400:]))
        ```
        """
        return validate(self, other, dt=dt, t=t)

    def to_json(self) -> str:
        """Return the graph as JSON: variables, sampling interval, and for every kept edge lag,
        delay, score, sign, slope with its interval, and share of resamples; NaN becomes null.
        """
        return _export.to_json(self)

    def to_dot(self) -> str:
        """Return the graph for Graphviz; edges that lower the rate of their target are dashed, and
        labels are lags in samples.
        """
        return _export.to_dot(self)

    def to_networkx(self):
        """Return a `networkx.MultiDiGraph` whose edges carry what `to_json` writes; needs networkx,
        which writes GraphML and other formats.
        """
        return _export.to_networkx(self)

    def to_xarray(self):
        """Return an `xarray.Dataset` over source, target and lag: graph, scores, lower bounds and
        delays, in units of time, with `delay` as a second coordinate of lags; needs xarray.
        """
        return _export.to_xarray(self)


def _generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a NumPy generator, from a key of JAX."""
    return np.random.default_rng(np.asarray(jr.key_data(key)).astype(np.uint32).ravel().tolist())
