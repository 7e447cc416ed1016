"""Fits of many systems: padding, distribution over cores and devices, and resuming."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext

import jax
import jax.random as jr
from jaxtyping import PRNGKeyArray

from .._checks import check_concrete, check_config, check_key, shown
from .._executors import run_many, sendable
from .._memory import padded_length
from .._store import Kept, fingerprint
from .._types import Checked
from ..windows._stack import pad_windows
from ..windows._windows import Windows
from ._fit import FitConfig, FitResult, fit
from .penalties import AbstractMethod, check_method


def fit_many(
    method: Checked[AbstractMethod],
    windows: Checked[Sequence],
    config: Checked[FitConfig | None] = None,
    *,
    key: Checked[PRNGKeyArray],
    directory: Checked[str | os.PathLike | None] = None,
    executor: Checked[Executor | None] = None,
    workers: Checked[int | None] = None,
    progress: bool = True,
) -> list[FitResult]:
    """Fit many systems, of any lengths, dimensions, lags and schemes.

    Element i equals `fit(method, windows[i], config, key=jr.fold_in(key, i))`, whatever its
    neighbours are: systems are padded to a few common lengths, compiled once for each, and run
    side by side, one per worker. On CPU that beats a `vmap` batch, which waits for its slowest
    member at every epoch. A system that diverges or has nothing to fit ends with its
    [`Status`][ndde_jax.Status].

    **Arguments:**

    - `method`, `config`: as for [`fit`][ndde_jax.fit], the same for all systems.
    - `windows`: one [`Windows`][ndde_jax.Windows] per system.
    - `key`: system i uses `jr.fold_in(key, i)`.
    - `directory`: where to keep finished results, one file per system, written as soon as it is
        done. A later call with the same arguments reads them and fits only what is missing; a
        result is recognised by its data, method, configuration and key, never by its number alone.
        A damaged file is computed again. When the disk is full, results are returned all the same
        and a warning says which could not be kept.
    - `executor`: where systems are computed, as for [`discover_many`][ndde_jax.discover_many]; by
        default threads of this process. Results are the same.
    - `workers`: systems at a time; by default the number of CPU cores, or of JAX devices if larger.
        Workers take turns on the available devices. With an executor, how many systems it is given
        ahead of those that are finished, by default 512.
    - `progress`: show a progress bar.

    **Returns:** a list of [`FitResult`][ndde_jax.FitResult], in order.

    **Raises:** `ValueError` if an element of `windows` is not the windows of one system.
        `BrokenExecutor` if processes of an executor die; what is finished is kept.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    systems = [np.stack([np.sin(w * t), np.cos(w * t)], 1) for w in (1.0, 1.5)]
    windows = [ndde.lagged_windows(x, dt=0.1, scheme="central4") for x in systems]
    config = ndde.FitConfig(max_steps=200)
    results = ndde.fit_many(ndde.L0NDDE(), windows, config, key=jax.random.key(0), progress=False)
    print([str(result.status) for result in results])
    ```
    """
    check_method(method)
    check_config(config, FitConfig)
    check_concrete("fit_many", (windows, config, method), "Use fit, which can.")
    if isinstance(windows, Windows | Mapping | str) or not isinstance(windows, Iterable):
        raise ValueError(
            f"windows must be a list with one Windows per system; got {shown(windows)}."
        )
    key, windows = check_key(key), list(windows)
    config = FitConfig() if config is None else config
    for i, w in enumerate(windows):
        if not isinstance(w, Windows) or w.history.ndim != 3:
            raise ValueError(
                f"windows[{i}] must be the Windows of one system; got "
                f"{getattr(getattr(w, 'history', w), 'shape', type(w).__name__)}. Use "
                "unstack_windows for a stacked batch."
            )

    def one(i: int, device) -> FitResult:
        # As `fit` would, but before they are on their device.
        item = pad_windows(windows[i], padded_length(len(windows[i].valid)))
        where = jax.default_device(device) if jax.device_count() > 1 else nullcontext()
        with where:  # what is made on the way is there as well
            return fit(method, *jax.device_put((item, config), device), key=jr.fold_in(key, i))

    def parcel(i: int):
        return _fit, sendable((method, windows[i], config, jr.fold_in(key, i)))

    def name(i: int) -> str:
        return fingerprint((method, windows[i], config, jr.fold_in(key, i)))

    return run_many(
        one,
        len(windows),
        kept=None if directory is None else Kept(directory),
        name=name,
        executor=executor,
        parcel=parcel,
        workers=workers,
        progress=progress,
        stacklevel=2,
    )


def _fit(arguments: tuple) -> FitResult:
    """Fit one batch of systems; the function that an executor calls."""
    method, windows, config, key = arguments
    return fit(method, windows, config, key=key)
