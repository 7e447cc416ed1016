"""The methods of a discovery that use it: all work on what the discovery holds."""

import functools
from typing import Any

import jax.random as jr
from jaxtyping import PRNGKeyArray

from .._checks import check_key, check_whole, refusal
from .._store import concretely
from .._types import Checked
from ._backtest import WithBacktests
from ._effects import WithEffects
from ._ensemble import RESAMPLES, Ensemble, generator, make_ensemble
from ._evidence import WithEvidence
from ._export import WithExports
from ._forecast import WithForecasts
from ._impute import WithImputation
from ._intervene import WithInterventions
from ._left_out import Doubt, doubt_of, make_echoes


class Usable(
    WithEffects,
    WithEvidence,
    WithForecasts,
    WithInterventions,
    WithBacktests,
    WithImputation,
    WithExports,
):
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
        return make_ensemble(self, rng=generator(key), resamples=resamples)

    # What follows depends on the discovery alone, so that keeping it changes no answer.
    @functools.cached_property
    def _members(self) -> Ensemble:
        """The default ensemble."""
        with concretely():
            return self.resample()

    @functools.cached_property
    def _echoed(self) -> tuple:
        """The parametric bootstrap models of the learned drift, with the noise of the default
        ensemble.
        """
        with concretely():
            return make_echoes(self, self._members)

    @functools.cached_property
    def _doubt(self) -> Doubt:
        """The other reading of the record, where map or flow is undecided."""
        with concretely():
            return doubt_of(self)

    def _given(self, ensemble: Any) -> Ensemble:
        """Return the ensemble that was given, or the default."""
        if ensemble is None:
            return self._members
        if not isinstance(ensemble, Ensemble):
            raise refusal("ensemble", "what found.resample(...) returns", ensemble)
        return ensemble
