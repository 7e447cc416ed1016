"""Parts of windows and coarser versions of them, to test how a result depends on the data."""

import dataclasses

import equinox as eqx
import numpy as np

from .._checks import check_choice, check_concrete, check_whole, check_windows
from .._types import Checked, to_jax
from ._stencils import STENCILS
from ._windows import Windows, is_regular, moments, over_rows, pad_windows


def thin_windows(
    windows: Checked[Windows], factor: Checked[int] = 2, *, scheme: Checked[str | None] = None
) -> Windows:
    """Return windows of the same data with differences over a step that is `factor` times longer.

    Keeps every `factor`-th row, with the same history: candidate lags, and what a unit of them
    means, stay. What changes with the step is an artefact of it. With `factor` 1 and another
    `scheme`, all rows stay and only the way they are differenced changes.

    **Arguments:**

    - `windows`: of one system, regularly sampled; outside `jit`, because which rows remain depends
        on missing values.
    - `factor`: 1 or more; windows that have been thinned before are thinned further.
    - `scheme`: of the new differences; by default that of the windows.

    **Returns:** [`Windows`][ndde_jax.Windows] with valid rows only, standardised anew, whose `step`
    says how far their differences reach. Its `dt`, the unit of its lags, and its `noise_share` are
    still those of the samples.

    **Raises:** `ValueError` for a batch, irregular sampling, midpoint windows, an unknown scheme,
    or too few rows.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.sin(0.1 * np.arange(500))
    windows = ndde.lagged_windows(x, dt=0.1, lags=(0, 5))
    print(windows.n_valid)  # 494
    print(ndde.windows.thin_windows(windows, 2).n_valid)  # 246
    ```
    """
    check_windows(windows, "thin_windows", "take one with unstack_windows")
    check_concrete("thin_windows", windows, "Which rows remain depends on missing values.")
    check_whole(factor, "factor")
    scheme = windows.scheme if scheme is None else scheme
    if windows.scheme == "midpoint":
        raise ValueError(
            "windows of scheme midpoint hold states between samples, which cannot be thinned."
        )
    check_choice(scheme, "scheme", STENCILS)
    if not is_regular(windows):
        raise ValueError("windows must be of equally spaced samples to be thinned.")
    samples, first = standardised_samples(windows)
    position = np.asarray(windows.position) - first
    step = factor * windows.step
    stencil = {offset * step: c / step for offset, c in STENCILS[scheme].items()}
    inside = (position + min(stencil) >= 0) & (position + max(stencil) < len(samples))
    used = np.flatnonzero(np.asarray(windows.valid) & inside & (position % step == 0))
    difference = sum(c * samples[position[used] + offset] for offset, c in stencil.items())
    known = np.isfinite(difference).all(axis=1) if len(used) else np.zeros(0, bool)
    used, difference = used[known], difference[known]
    if len(used) < windows.dim + 1:
        raise ValueError(
            f"factor={factor} leaves only {len(used)} rows, fewer than dim + 1 = "
            f"{windows.dim + 1}. Use a smaller factor."
        )
    rows = dataclasses.replace(_rows(windows, used), scheme=scheme, step=step)
    return _with_rates(rows, difference / float(windows.dt))


def half_blocks(windows: Windows) -> list[Windows]:
    """Return first, middle and last half of the valid rows, all of the same length.

    Scaling stays that of the whole, so that risks compare.
    """
    used = np.flatnonzero(np.asarray(windows.valid))
    half = len(used) // 2
    starts = (0, (len(used) - half) // 2, len(used) - half)
    return [_rows(windows, used[start : start + half]) for start in starts]


def first_rows(windows: Windows, n: int) -> Windows:
    """Return at most the first `n` rows, with rows of padding if there are fewer."""
    return pad_windows(_rows(windows, np.arange(min(n, windows.valid.shape[0]))), n)


def standardised_samples(windows: Windows) -> tuple[np.ndarray, int]:
    """Return the samples in standardised units, NaN where no valid row knows them, and the position
    of the first; trajectories follow one another with NaN in between. Thinned rows, which lie a
    whole number of steps apart, are found at whole numbers of steps from the first.
    """
    valid = np.asarray(windows.valid)
    position = np.asarray(windows.position)[valid]
    history = np.asarray(windows.history, np.float64)[valid]
    first = int(position.min()) - -(-max(windows.lags) // windows.step) * windows.step
    samples = np.full((int(position.max()) - first + windows.step + 1, windows.dim), np.nan)
    if windows.scheme == "euler" and 0 in windows.lags:
        # The sample that the difference reaches for; overwritten where it is known as a state.
        scaling = windows.scaling
        ratio, offset = scaling.rate_scale / scaling.scale, scaling.rate_center / scaling.scale
        rate = np.asarray(windows.increment, np.float64)[valid] * np.asarray(ratio)[None]
        step = (rate + np.asarray(offset)[None]) * (windows.step * float(windows.dt))
        samples[position + windows.step - first] = history[:, windows.lags.index(0)] + step
    for k, lag in enumerate(windows.lags):
        samples[position - lag - first] = history[:, k]
    return samples, first


def _rows(windows: Windows, index: np.ndarray) -> Windows:
    return over_rows(windows, lambda a: to_jax(np.asarray(a)[index]))


def _with_rates(windows: Windows, rate: np.ndarray) -> Windows:
    """Return windows with other rates, in standardised states per unit of time."""
    center, scale = moments(rate, np.ones(len(rate)), np)
    scale = np.where(scale > 0, scale, 1)
    state_scale = np.asarray(windows.scaling.scale, np.float64)
    new = (rate - center) / scale, center * state_scale, scale * state_scale
    return eqx.tree_at(
        lambda w: (w.increment, w.scaling.rate_center, w.scaling.rate_scale),
        windows,
        tuple(to_jax(a, windows.increment.dtype) for a in new),
    )
