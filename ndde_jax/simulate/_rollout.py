"""A learned model as the one-step map it was trained as."""

from typing import Any

from jaxtyping import PRNGKeyArray

from .._types import Checked
from ..models._model import AbstractDelayModel, check_model
from ._advance import Path
from ._solve import solve_sdde


def rollout(
    model: Checked[AbstractDelayModel],
    *,
    history: Any,
    n_steps: Checked[int],
    sigma: Any = 0.0,
    key: Checked[PRNGKeyArray | None] = None,
    save_every: Checked[int] = 1,
) -> Path:
    """Iterate X[k+1] = X[k] + dt G(X[k], X[k−l₁], …) + Σ dW: the *discrete* rollout.

    This is the map that a model fitted with forward differences (`scheme="euler"`) describes. A
    model fitted with central differences describes rates of change instead; its *continuous*
    rollout, [`solve_sdde`][ndde_jax.solve_sdde] with `dt=model.dt / 4` or a solver of higher order,
    is then the better one. Where the two differ much, the data were sampled too coarsely for a
    drift to be read off them.

    **Arguments:** as for `solve_sdde`; `history` is a state `[dim]` or samples `[time dim]` at the
    interval of the data.

    **Returns:** a [`Path`][ndde_jax.simulate.Path]. [`confine`][ndde_jax.confine] the model first
    if it diverges.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(800) * 0.02
    x = np.stack([np.sin(t), np.cos(t)], 1)
    windows = ndde.lagged_windows(x, dt=0.02)
    model = ndde.fit(ndde.L0NDDE(), windows, key=jax.random.key(0)).model
    print(ndde.simulate.rollout(model, history=x[:1], n_steps=10).ys[-1], x[10])
    ```
    """
    check_model(model)
    return solve_sdde(
        model, history=history, n_steps=n_steps, sigma=sigma, key=key, save_every=save_every
    )
