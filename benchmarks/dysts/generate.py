"""The benchmark's own data: every trajectory by the library's simulator, from one seed.

The noise-free tests of a system are stepped as one batch.
"""

import functools
import itertools
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import ndde_jax as ndde

from .settings import Protocol, protocol, regime

# Samples of each test kept at full resolution, in lengths of the training trajectory.
FULL_RESOLUTION = 1.2
STRIDE = 5
# Largest number of times that noise is halved if it drives a system off its attractor.
HALVINGS = 4


class EscapeError(ValueError):
    """A system that leaves its attractor."""


class _Batched(eqx.Module):
    """A drift for states `[batch dim]`."""

    drift: eqx.Module

    def __call__(self, t, x, lagged, args):
        none = jnp.zeros((0, x.shape[1]), x.dtype)
        return jax.vmap(lambda state: self.drift(t, state, none))(x)


def generate(name: str, path: Path, *, seed: int = 0, settings: Protocol | None = None) -> None:
    """Simulate one system and write its `.npz` file, which `read_problem` reads.

    The seed and the name determine every number. All is in double precision. Noise with which the
    training trajectory escapes is halved until it does not; `noise_scale` in the file records this.

    **Raises:** `EscapeError` if the system escapes at every noise.
    """
    settings = protocol() if settings is None else settings
    with jax.enable_x64(True):
        arrays = _simulate(name, seed, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renaming is atomic: an interrupted run leaves no half file behind.
    part = path.with_name(f".{path.stem}.part.npz")
    np.savez(part, **arrays)
    part.replace(path)


def generate_all(
    names: Sequence[str],
    folder: Path,
    *,
    seed: int = 0,
    workers: int = 1,
    settings: Protocol | None = None,
) -> list[Path]:
    """Return files of the systems, simulated if the folder does not hold them yet. Systems that
    escape are omitted, with a line on standard error.

    **Raises:** `ValueError` if the folder holds a system made with another seed or another unit of
    the noise, or if all escape.
    """
    settings = protocol() if settings is None else settings
    paths = [Path(folder) / f"{name}.npz" for name in names]
    missing = []
    for name, path in zip(names, paths, strict=True):
        if not path.exists():
            missing.append((name, path))
            continue
        with np.load(path) as file:
            found = int(file["seed"]) if "seed" in file else None
            noise = str(file["noise_of"]) if "noise_of" in file else "std"
        if found != seed:
            raise ValueError(f"{path} was made with seed {found}, not {seed}; use another folder.")
        if noise != settings.noise_of:
            raise ValueError(
                f"{path} was made with noise as a share of the {noise}, not of the "
                f"{settings.noise_of}; use another folder."
            )
    make = functools.partial(_generated, seed=seed, settings=settings)
    if workers == 1 or len(missing) < 2:
        escaped = list(itertools.starmap(make, missing))
    else:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            running = [pool.submit(make, name, path) for name, path in missing]
            escaped = [future.result() for future in running]
    for why in filter(None, escaped):
        print(f"{why} It is omitted.", file=sys.stderr)
    made = [path for path in paths if path.exists()]
    if not made:
        raise ValueError(f"none of {', '.join(names)} stays on its attractor.")
    return made


def _generated(name: str, path: Path, **options) -> str | None:
    """Write a system's file, or return why it has none."""
    try:
        generate(name, path, **options)
    except EscapeError as error:
        return str(error)
    return None


def _simulate(name: str, seed: int, settings: Protocol) -> dict:
    system = ndde.systems.get(name)
    unit = lyapunov_unit(name)
    dt = system.sampling_step
    n_train, n_test = lengths(unit * dt, settings)
    start_key, pick_key, noise_key = jr.split(
        jr.fold_in(jr.key(seed), zlib.crc32(name.encode())), 3
    )
    run = functools.partial(
        _run, _Batched(system.drift), dt=dt / settings.substeps, save_every=settings.substeps
    )
    members = 1 + settings.n_tests
    nudge = 1 + 1e-3 * jr.normal(start_key, (members, system.dim))
    clean = run(
        jnp.asarray(system.history, float)[None] * nudge, n_steps=n_train * settings.substeps
    )
    if not np.isfinite(clean).all():
        raise EscapeError(f"{name} escapes from its published initial condition.")
    orbit = clean[len(clean) // 4 :].reshape(-1, system.dim)
    starts = orbit[np.asarray(jr.choice(pick_key, len(orbit), (members,), replace=False))]
    train, sigma, scale = _noisy(name, run, orbit, starts[:1], n_train, noise_key, settings)
    tests = run(jnp.asarray(starts[1:]), n_steps=n_test * settings.substeps)[:n_test]
    if not np.isfinite(tests).all():
        raise EscapeError(f"{name} escapes from its own attractor.")

    mean, std = train.mean(axis=0), train.std(axis=0)
    kept = min(int(FULL_RESOLUTION * n_train), n_test)
    standardised = (tests - mean) / std
    arrays = {
        "train": ((train - mean) / std).astype(np.float32),
        "train_mean": mean,
        "train_std": std,
        "dt": dt,
        "lyap_unit": unit,
        "n_train": n_train,
        "n_test": n_test,
        "stride": STRIDE,
        "sigma": sigma,
        "noise_scale": scale,
        "noise_of": settings.noise_of,
        "test_ic": standardised[0],
        "graph": np.asarray(system.graph[..., 0]).T.astype(int),
        "regime": regime(name),
        "seed": seed,
        "lyap_tests": _spectra(system, tests[0], dt, n_test),
    }
    for k in range(settings.n_tests):
        arrays[f"test{k}"] = standardised[:kept, k].astype(np.float32)
        arrays[f"test{k}_long"] = standardised[::STRIDE, k].astype(np.float32)
    return arrays


def lengths(unit: float, settings: Protocol) -> tuple[int, int]:
    """Return the number of samples of the training trajectory, which is limited, and of a test,
    which is not; `unit` is one sample in Lyapunov times.
    """
    n_train = round(settings.train_lyapunov_times / unit)
    n_train = int(np.clip(n_train, settings.min_samples, settings.max_samples))
    return n_train, round(float(settings.test_lyapunov_times / unit))


def _noisy(name, run, orbit, start, n_train, key, settings):
    """Return a training trajectory on the attractor, its noise, and the factor of its reduction."""
    spread, substeps = orbit.std(axis=0), settings.substeps
    dt = run.keywords["dt"]
    draws = np.asarray(jr.normal(key, (n_train * substeps, orbit.shape[1])))
    for halving in range(HALVINGS + 1):
        scale = 0.5**halving
        sigma = settings.sigma(spread) * scale
        increments = jnp.asarray(np.sqrt(dt) * sigma * draws)[:, None]
        train = run(jnp.asarray(start), increments=increments, n_steps=len(draws))[:n_train, 0]
        centred = np.abs(train - orbit.mean(axis=0)) / spread
        if np.isfinite(train).all() and centred.max() < 20:
            return train, sigma, scale
    raise EscapeError(f"{name} escapes even with {scale:g} of the noise.")


def _spectra(system, starts, dt, n_steps) -> np.ndarray:
    """Return the Lyapunov spectrum along each test, `[test dim]`; the unit of the state does not
    matter.
    """

    def one(start):
        spectrum = ndde.lyapunov_spectrum(
            system.drift, history=start, dt=dt, n_steps=n_steps, transient_steps=0
        )
        return spectrum.exponents

    return np.asarray(jax.vmap(one)(jnp.asarray(starts)))


def _run(drift, starts, *, n_steps, dt, save_every, increments=None) -> np.ndarray:
    """Return paths `[time member dim]`."""
    path = ndde.solve_sdde(
        drift,
        history=starts[None],  # an array, since a new function would be compiled again
        dt=dt,
        n_steps=n_steps,
        sigma=0.0 if increments is None else 1.0,
        increments=increments,
        solver=diffrax.Tsit5(),
        save_every=save_every,
    )
    return np.asarray(path.ys)


@functools.cache
def lyapunov_unit(name: str) -> float:
    """The published largest exponent, which defines the length of a Lyapunov time."""
    from ndde_jax.systems._dysts import _records

    return float(_records()[name]["maximum_lyapunov_estimated"])
