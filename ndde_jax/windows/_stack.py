"""Windows of several systems side by side, and windows padded to a length."""

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import equinox as eqx
import jax

from .._checks import refusal, shown
from .._types import Checked, namespace_of, to_jax
from ._windows import Windows, over_rows


def stack_windows(windows: Checked[Sequence[Windows]]) -> Windows:
    """Return windows of several systems as one `Windows` with a leading batch axis on every array.

    Shorter ones are padded with rows that are not valid: zeros with weight 0, at positions that
    continue past the end. Whatever respects `valid` or `weight` is unchanged by padding, and
    `dropped` does not count it.

    **Arguments:**

    - `windows`: at least one, alike in lags, scheme, step and number of variables.

    **Returns:** `Windows` whose arrays have one more axis, `[batch window lag dim]` and so on; for
    use under `jax.vmap`.

    **Raises:** `ValueError` if there are none, if one is already stacked, or if they differ in
    lags, scheme, step or number of variables.

    ```python
    import jax
    import numpy as np
    import ndde_jax as ndde

    rng = np.random.default_rng(0)
    systems = [rng.normal(size=(n, 2)).cumsum(axis=0) for n in (100, 80)]
    batch = ndde.stack_windows([ndde.lagged_windows(x, dt=1.0) for x in systems])
    print(batch.history.shape, batch.n_valid)  # (2, 99, 1, 2) [99 79]
    spread = jax.vmap(lambda w: (w.weight @ w.increment**2) / w.weight.sum())(batch)  # all ones
    ```
    """
    if isinstance(windows, Windows) or not isinstance(windows, Iterable):
        raise refusal("windows", "a list of Windows", windows)
    windows = list(windows)
    if not windows:
        raise ValueError("windows must be at least one Windows; got an empty sequence.")
    first = windows[0]
    for i, w in enumerate(windows):
        if not isinstance(w, Windows):
            raise refusal(f"windows[{i}]", "what lagged_windows returns", w)
        if w.history.ndim != 3:
            raise ValueError(
                f"windows {i} has a batch axis already (history of shape {w.history.shape}); pass "
                "unstacked ones."
            )
        for what in ("lags", "scheme", "step", "dim"):
            if getattr(w, what) != getattr(first, what):
                raise ValueError(
                    f"windows to stack must agree in lags, scheme, step and dim; {what} of windows "
                    f"{i} is {getattr(w, what)!r}, of windows 0 {getattr(first, what)!r}."
                )
    # In NumPy where possible: JAX would compile once for every length.
    xp = namespace_of(windows)
    length = max(w.valid.shape[0] for w in windows)
    padded = [_pad(w, length, xp) for w in windows]
    return jax.tree.map(lambda *leaves: to_jax(xp.stack(leaves)), *padded)


def unstack_windows(windows: Checked[Windows]) -> list[Windows]:
    """Return the inverse of [`stack_windows`][ndde_jax.stack_windows], up to rows of padding, which
    stay.

    **Raises:** `ValueError` if there is no batch axis.
    """
    if not isinstance(windows, Windows) or windows.history.ndim != 4:
        raise ValueError(
            "unstack_windows needs one batch axis, windows with history [batch, window, lag, dim]; "
            f"got {shown(getattr(getattr(windows, 'history', windows), 'shape', windows))}."
        )
    xp = namespace_of(windows)
    windows = jax.tree.map(xp.asarray, windows)
    n = windows.history.shape[0]
    return [jax.tree.map(lambda a, i=i: to_jax(a[i]), windows) for i in range(n)]


def pad_windows(windows: Windows, length: int) -> Windows:
    """Return windows of one system padded to a length with rows that are not valid."""
    xp = namespace_of(windows)
    return jax.tree.map(to_jax, _pad(windows, length, xp))


def _pad(w: Windows, length: int, xp: ModuleType) -> Windows:
    """Return rows padded to a length."""
    n = w.valid.shape[0]

    def zeros(a: Any) -> Any:
        a = xp.asarray(a)
        return xp.concatenate([a, xp.zeros((length - n, *a.shape[1:]), a.dtype)])

    position = xp.asarray(w.position)
    beyond = position[-1] + 1 + xp.arange(length - n, dtype=position.dtype)
    position = xp.concatenate([position, beyond])
    return eqx.tree_at(lambda w: w.position, over_rows(w, zeros), position)
