"""The simulator against a hand-written loop in Numba and against JiTCDDE, all in float64."""

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import ndde_jax as ndde
from benchmarks import tables

from ._timing import compile_and_run

HEADER = ("what", "ours", "peer", "peer / ours", "target", "compile s, ours", "peer")
SAVE_EVERY, TAU, SPACING, INTERVAL, K = 100, 17.0, 0.5, 10, 6


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of all measurements."""

    steps: int = 1_000_000
    batch_steps: int = 2000
    batch: int = 1000
    duration: int = 300
    linear_steps: int = 100_000
    mackey_glass_steps: int = 10_000
    lyapunov_duration: int = 5000
    repeats: int = 7


QUICK = Sizes(
    steps=300_000,
    batch_steps=1000,
    linear_steps=20_000,
    mackey_glass_steps=3000,
    lyapunov_duration=1000,
    repeats=3,
)


def report(*, quick: bool, peer_python: str) -> str:
    """Measure, and return a Markdown table with a note."""
    table = tables.markdown(HEADER, rows(QUICK if quick else Sizes(), peer_python))
    return (
        f"{table}\n\nfloat64; ratios above 1 mean that ours is faster, or closer to the reference."
    )


def rows(sizes: Sizes, peer_python: str) -> list[tuple[str, ...]]:
    """Return all rows, and restore the precision."""
    with jax.enable_x64(True):
        return [
            *euler_rows(sizes, peer_python),
            *accuracy_rows(sizes, peer_python),
            *gradient_rows(sizes),
            lyapunov_row(sizes, peer_python),
        ]


def linear(t, x, lagged, args):
    """A Langevin equation with a delay."""
    return args["a"] * x + args["b"] * lagged[0]


def mackey_glass(t, x, lagged, args):
    """Return the rate of Mackey–Glass, n = 10."""
    return args["beta"] * lagged[0] / (1 + lagged[0] ** 10) - args["gamma"] * x


def linear_path(*, args=None, history=None, **rest):
    """Return a path in steps of 0.01 from zero."""
    return ndde.solve_sdde(
        linear,
        lags=1.0,
        dt=0.01,
        history=jnp.zeros(1) if history is None else history,
        sigma=0.1,
        args=linear_parameters() if args is None else args,
        **rest,
    ).ys


def mackey_glass_path(dt: float, duration: float, *, args=None, **rest):
    """Return a path from the constant 1.2."""
    return ndde.solve_sdde(
        mackey_glass,
        lags=TAU,
        dt=dt,
        history=jnp.array([1.2]),
        n_steps=round(duration / dt),
        args=mackey_glass_parameters() if args is None else args,
        **rest,
    ).ys


def linear_parameters():
    """Return parameters as arrays, so that gradients by them exist."""
    return {"a": jnp.asarray(-1.0), "b": jnp.asarray(0.5)}


def mackey_glass_parameters():
    """Return parameters as arrays, so that gradients by them exist."""
    return {"beta": jnp.asarray(0.2), "gamma": jnp.asarray(0.1)}


def euler_rows(sizes: Sizes, peer_python: str):
    """Yield rows on Euler–Maruyama: one path, noise given and drawn; a batch inside the state and
    by `vmap`.
    """
    n, n_batch, batch = sizes.steps, sizes.batch_steps, sizes.batch
    given = 0.1 * jr.normal(jr.key(0), (n, 1))
    many = 0.1 * jr.normal(jr.key(1), (n_batch, batch, 1))
    members = many.swapaxes(0, 1)
    past = jnp.zeros((102, batch, 1))
    single = dict(n_steps=n_batch, save_every=SAVE_EVERY)
    outer = jax.jit(jax.vmap(lambda dw: linear_path(increments=dw, **single)))
    ours = {
        "given": lambda: linear_path(n_steps=n, increments=given),
        "drawn": lambda: linear_path(n_steps=n, key=jr.key(2)),
        "batch": lambda: linear_path(history=past, increments=many, **single),
        "vmap": lambda: outer(members),
    }
    measured = {name: compile_and_run(sizes.repeats, run) for name, run in ours.items()}
    peer = ask_peer(
        peer_python,
        "euler",
        n_steps=n,
        batch_steps=n_batch,
        batch=batch,
        save_every=SAVE_EVERY,
        repeats=sizes.repeats,
    )
    labels = {
        "given": ("Euler–Maruyama, ns/step, against Numba", "≤ 15 or ratio ≥ 0.5"),
        "drawn": ("the same with its draws, ns/step", ""),
        "batch": (f"{batch} systems in one state, ns/(step·system), against Numba", "≤ 5"),
        "vmap": (f"{batch} systems by vmap, ns/(step·system), against Numba", ""),
    }
    for name, (what, target) in labels.items():
        count = n if name in ("given", "drawn") else n_batch * batch
        compiling, seconds = measured[name]
        theirs = peer if isinstance(peer, str) else peer["batch" if name == "vmap" else name]
        yield row(what, seconds, theirs, target, compiling, unit=1e9 / count)


def accuracy_rows(sizes: Sizes, peer_python: str):
    """Yield rows on seconds and error of Tsit5 at dt = 0.5; the reference has a step 32 times as
    short.
    """
    run = lambda: mackey_glass_path(SPACING, sizes.duration, solver=diffrax.Tsit5())  # noqa: E731
    compiling, seconds = compile_and_run(sizes.repeats, run)
    reference = mackey_glass_path(
        SPACING / 32, sizes.duration, solver=diffrax.Tsit5(), save_every=32
    )
    error = float(jnp.max(jnp.abs(run() - reference)))
    peer = ask_peer(
        peer_python,
        "solve",
        duration=sizes.duration,
        spacing=SPACING,
        tau=TAU,
        repeats=sizes.repeats,
    )
    theirs = peer
    if not isinstance(peer, str):
        at = np.round(np.asarray(peer["times"]) / SPACING).astype(int)
        theirs = float(np.max(np.abs(np.asarray(peer["states"]) - np.asarray(reference)[at, 0])))
    what = f"Mackey–Glass, τ = 17, T = {sizes.duration}"
    yield row(f"{what}, Tsit5, ms, against JiTCDDE", seconds, peer, "ratio > 1", compiling, 1e3)
    yield (
        f"{what}, largest error",
        f"{error:.1e}",
        theirs if isinstance(theirs, str) else f"{theirs:.1e}",
        "" if isinstance(theirs, str) else f"{theirs / error:.1f}",
        "≤ 1e-8",
        "",
        "",
    )


def gradient_rows(sizes: Sizes):
    """Yield rows on reverse mode through the mean square of a path, against its forward pass."""
    n = sizes.linear_steps
    noise = 0.1 * jr.normal(jr.key(0), (n, 1))
    n_late = sizes.mackey_glass_steps
    cases = (
        (
            "linear",
            n,
            lambda args: jnp.mean(linear_path(n_steps=n, increments=noise, args=args) ** 2),
            linear_parameters(),
        ),
        (
            "Mackey–Glass",
            n_late,
            lambda args: jnp.mean(mackey_glass_path(0.1, 0.1 * n_late, args=args) ** 2),
            mackey_glass_parameters(),
        ),
    )
    for name, n_steps, loss, args in cases:
        value, gradient = jax.jit(loss), jax.jit(jax.grad(loss))
        compiling, forward = compile_and_run(sizes.repeats, lambda: value(args))  # noqa: B023
        forward = {"compile": compiling, "run": forward}
        compiling, seconds = compile_and_run(sizes.repeats, lambda: gradient(args))  # noqa: B023
        what = f"gradient, {name}, ns/step, against our forward pass"
        yield row(what, seconds, forward, "ratio ≥ 0.1", compiling, 1e9 / n_steps)


def lyapunov_row(sizes: Sizes, peer_python: str):
    """Return the row on six exponents. Ours add a transient of a tenth; JiTCDDE discards a tenth of
    its time.
    """
    parameters = mackey_glass_parameters()

    def run():
        spectrum = ndde.lyapunov_spectrum(
            mackey_glass,
            lags=TAU,
            dt=0.5,
            history=jnp.array([1.2]),
            n_steps=2 * sizes.lyapunov_duration,
            k=K,
            args=parameters,
        )
        return spectrum.exponents

    compiling, seconds = compile_and_run(sizes.repeats, run)
    peer = ask_peer(
        peer_python,
        "lyapunov",
        duration=sizes.lyapunov_duration,
        interval=INTERVAL,
        tau=TAU,
        k=K,
    )
    what = f"{K} Lyapunov exponents, T = {sizes.lyapunov_duration}, ms, against JiTCDDE"
    return row(what, seconds, peer, "ratio ≥ 100", compiling, 1e3)


def row(what: str, seconds: float, peer: Any, target: str, compiling: float, unit: float):
    """Return the cells of a row; the peer is a mapping with `run` and `compile`, or a text that
    says why there is none.
    """
    ours = f"{unit * seconds:.3g}"
    if isinstance(peer, str):
        return what, ours, peer, "", target, f"{compiling:.1f}", ""
    theirs = f"{unit * peer['run']:.3g}"
    ratio = f"{peer['run'] / seconds:.2g}"
    return what, ours, theirs, ratio, target, f"{compiling:.1f}", f"{peer['compile']:.1f}"


def ask_peer(python: str, part: str, **arguments) -> Any:
    """Return the result of `peers.py`, or the text for a cell without a number."""
    command = [
        python,
        str(Path(__file__).resolve().parent / "peers.py"),
        part,
        json.dumps(arguments),
    ]
    try:
        # In another folder, because JiTCDDE's compiler reads any project file it finds.
        with tempfile.TemporaryDirectory() as folder:
            answer = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    except FileNotFoundError:
        return "not installed"
    if answer.returncode == 0:
        return json.loads(answer.stdout.splitlines()[-1])
    if "ModuleNotFoundError" in answer.stderr:
        return "not installed"
    print(answer.stderr, file=sys.stderr)
    return "failed"
