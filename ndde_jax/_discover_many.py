"""Discovery of many systems: in this process, in others, or on a cluster."""

import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._checks import check_choice, check_concrete, check_key, short_repr
from ._discover import check_settings, discover
from ._discovery import Discovery
from ._executors import Failed, run_many, sendable
from ._recipe import Recipe
from ._store import Kept
from ._types import Checked, RealScalarLike
from .samples._lag_times import has_unit
from .samples._reading import read_samples
from .samples._samples import Samples
from .samples._trajectories import read_lags
from .windows._prior import PriorKnowledge, check_prior

# Largest number of failures whose messages a warning quotes.
SHOWN = 3


def discover_many(
    systems: Checked[Sequence],
    *,
    dt: Checked[RealScalarLike | None] = None,
    t: Any = None,
    lags: Checked[Iterable | None] = None,
    names: Checked[Sequence[str] | None] = None,
    scheme: Checked[str | None] = None,
    prior: Checked[PriorKnowledge | None] = None,
    inputs: Checked[Sequence[str] | None] = None,
    transform: Any = None,
    time_unit: Checked[str] = "",
    treat: Checked[bool] = True,
    coefficient: Checked[RealScalarLike | None] = None,
    recipe: Checked[Recipe | None] = None,
    key: Checked[PRNGKeyArray],
    directory: Checked[str | os.PathLike | None] = None,
    executor: Checked[Executor | None] = None,
    workers: Checked[int | None] = None,
    errors: Checked[str] = "keep",
    progress: bool = True,
) -> list[Discovery | Failed]:
    """Discover the graphs of many systems, in turn or in parallel, and resume after interruptions.

    Element i equals `discover(systems[i], ..., key=jr.fold_in(key, i))` bit for bit, on any worker
    and among any other systems, on processors of one kind. A system that cannot be used leaves a
    [`Failed`][ndde_jax.Failed] in its place, and a warning at the end.

    **Arguments:**

    - `systems`: a list of systems, each as [`discover`][ndde_jax.discover] takes it for `x`.
    - `dt`, `t`, `lags`, `names`, `scheme`, `prior`, `inputs` (by name), `transform`, `time_unit`,
        `treat`, `coefficient`, `recipe`: as for [`discover`][ndde_jax.discover], the same for all
        systems. Times and names that differ between systems belong to the systems themselves, given
        as [`Samples`][ndde_jax.Samples], DataFrames or DataArrays.
    - `key`: system i uses `jr.fold_in(key, i)`.
    - `directory`: where to store finished discoveries, one file per system, written by this process
        as soon as each is done; [`Discovery.load`][ndde_jax.Discovery.load] reads such a file too.
        A later call with the same arguments reads them and computes only those that are missing; a
        discovery is recognised by its data, settings and key. Failures are not stored: they are
        tried again. If the disk is full, all discoveries are still returned and a warning says
        which could not be stored.
    - `executor`: where systems are computed, by default in this process, one after the other,
        however many there are. Other processes pay where this loop takes several times the seconds
        they need to start. Takes any `concurrent.futures.Executor`, such as a `ProcessPoolExecutor`
        that spawns, that of `mpi4py.futures`, or a `dask.distributed.Client`. It is used as it is
        and never shut down; this library must be installed where it computes. Systems and
        discoveries are sent as bytes.
    - `workers`: threads of this process; 1 by default, since most of a discovery is Python, which
        runs in one thread at a time. With an executor, how many systems it receives ahead of those
        that are finished, by default 512.
    - `errors`: `"keep"`, or `"raise"` to stop at the first system that fails; finished discoveries
        stay in `directory`.
    - `progress`: show a progress bar.

    **Returns:** a list of [`Discovery`][ndde_jax.Discovery], in order, with
    [`Failed`][ndde_jax.Failed] where there is none.

    **Raises:** `ValueError` for wrong settings, for an executor that forks, and if all systems fail
    for the same reason. `BrokenExecutor` if processes of an executor die; finished discoveries are
    kept, and the same call with a new executor resumes from there. A Dask cluster replaces its own
    workers.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(200) * 0.1
    systems = [np.stack([np.sin(w * t), np.cos(w * t)], 1) for w in (1.0, 1.5)]
    options = dict(dt=0.1, recipe=ndde.Recipe.fast(), key=jax.random.key(0), progress=False)
    found = ndde.discover_many(systems, **options)
    print([one.graph[:, :, 0].tolist() for one in found])
    ```
    """
    systems = _listed(systems)
    check_concrete("discover_many", (systems, dt, t, coefficient, key), "Use recover, which can.")
    recipe = check_settings(coefficient, recipe, scheme, treat)
    key = check_key(key)
    check_choice(errors, "errors", ("keep", "raise"))
    check_prior(prior)
    if lags is not None and not has_unit(lags):
        lags = read_lags(lags)
    price = None if coefficient is None else float(coefficient)
    common = dict(lags=lags, prior=prior, inputs=inputs, transform=transform, treat=bool(treat))
    common |= dict(coefficient=price, recipe=recipe)

    def task(i: int) -> dict[str, Any]:
        x = read_samples(systems[i], dt=dt, t=t, names=names, time_unit=time_unit)
        return {"x": x, "key": jr.fold_in(key, i), **common}

    def parcel(i: int):
        return _discover, sendable(task(i), "settings and systems")

    def name(i: int) -> str | None:
        try:
            content = parcel(i)[1]
        except ValueError:
            return None  # it fails again, with this error, when it is computed
        precision = b"double" if jax.config.jax_enable_x64 else b"single"  # type: ignore[attr-defined]
        return f"{i:05d}-{hashlib.sha256(content + precision).hexdigest()[:24]}"

    found = run_many(
        lambda i, device: _discover(task(i)),
        len(systems),
        kept=None if directory is None else Kept(directory),
        name=name,
        executor=executor,
        parcel=parcel,
        workers=1 if executor is None and workers is None else workers,
        keep_failures=errors == "keep",
        progress=progress,
        label="discover",
        stacklevel=2,
    )
    _warn_or_raise([result for result in found if isinstance(result, Failed)], len(found))
    return found


def _discover(arguments: dict[str, Any]) -> Discovery:
    """Discover one system. This is the function that an executor calls."""
    return discover(**arguments)


def _listed(systems: Any) -> list:
    """Return one element per system; raise for a single table, which is iterable too."""
    single = isinstance(systems, Samples | Mapping | str | bytes) or (
        hasattr(systems, "shape") and np.ndim(systems) != 3
    )
    if single or not isinstance(systems, Iterable):
        raise ValueError(
            "systems must be a list of systems, or an array [system time dim]; got "
            f"{short_repr(systems)}. Write [x] for one system."
        )
    return list(systems)


def _warn_or_raise(failures: list[Failed], n: int) -> None:
    """Warn about systems without a discovery; raise if all failed for one reason, since the
    settings are then to blame.
    """
    if not failures:
        return
    reasons = {(failure.kind, failure.error) for failure in failures}
    if len(failures) == n and len(reasons) == 1:
        raise failures[0].exception()
    sentences = " ".join(f"systems[{f.index}]: {f.error}" for f in failures[:SHOWN])
    more = f" And {len(failures) - SHOWN} more." if len(failures) > SHOWN else ""
    said = f"{len(failures)} of {n} systems could not be discovered and are Failed in the list."
    warnings.warn(f"{said} {sentences}{more}", stacklevel=3)
