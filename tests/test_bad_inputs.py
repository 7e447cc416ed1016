"""Every fault of `bad_inputs.py` and `bad_files.py` ends in a sentence that names what is wrong.

`python -m pytest -n0 -m slow tests/test_bad_inputs.py -s` prints how many cases there are of each
kind.
"""

import collections
import re
import signal
import traceback
import warnings
from pathlib import Path

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

import ndde_jax as ndde
from ndde_jax import cli
from ndde_jax.samples._clock import sampling
from ndde_jax.samples._tables import read_table

from . import bad_files, bad_inputs

pytestmark = pytest.mark.slow

HERE = str(Path(ndde.__file__).parent)
SECONDS = 10


def tell(title, counts):
    """The figures, printed with -s."""
    print(f"\n{title}:")
    for kind, count in sorted(counts.items()):
        print(f"{count:6d}  {kind}")
    print(f"{counts.total():6d}  in all")


def attempt(call):
    """The exception of a call, within ten seconds."""

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            # Equinox raises this for static settings before it calls our checks.
            warnings.filterwarnings("ignore", message="A JAX array is being set as static")
            call()
    except Exception as error:
        return error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def complaint(error, words):
    """The fault of an answer to a bad input; empty if there is none."""
    if error is None:
        return "accepted"
    kind, text = type(error).__name__, " ".join(str(error).split())
    if not isinstance(error, ValueError):
        return f"{kind}: {text[:200]}"
    frame = traceback.extract_tb(error.__traceback__)[-1].filename
    if not frame.startswith(HERE):
        return f"raised in {frame}: {text[:200]}"
    if not any(word in text for word in words):
        return f"does not name {words[0]}: {text[:200]}"
    return "" if 15 < len(text) < 600 else f"{len(text)} characters"


def test_every_fault_gets_a_sentence():
    counts, wrong = collections.Counter(), []
    for spec, argument, kind, fault in bad_inputs.cases():
        fault = bad_inputs.lazy(fault)
        words = (argument, *bad_inputs.ALSO.get(argument, ()))
        found = complaint(attempt(lambda s=spec, a=argument, f=fault: s.call(a, f)), words)
        counts[kind] += 1
        if found:
            shown = repr(fault).replace("\n", " ")[:60]
            wrong.append(f"{spec.name}({argument}={shown}) [{kind}]: {found}")
    tell("faults of arguments, by kind", counts)
    assert not wrong, "\n" + "\n".join(wrong)
    assert counts.total() >= 500


# Values that are never valid: drawn by kind of argument.
WORDS = st.text(max_size=8)
LISTS = st.lists(st.integers() | WORDS | st.none(), min_size=2, max_size=4)
ARRAYS = hnp.arrays(
    st.sampled_from(["f4", "f8", "i8", "c16", "U3", "?", "m8[s]", "u4"]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=3, max_side=5),
)
NOT_FINITE = st.sampled_from([np.nan, np.inf, -np.inf])
DRAWN = {
    "key": st.integers() | st.floats() | WORDS | LISTS | ARRAYS,
    "windows": st.integers() | WORDS | LISTS | ARRAYS,
    "graph": WORDS.filter(lambda w: w != "full")
    | st.integers()
    | ARRAYS
    | hnp.arrays("f8", bad_inputs.SHAPE, elements=st.floats(0.001, 0.999)),
    "positive": st.floats(max_value=0) | NOT_FINITE | WORDS | LISTS | ARRAYS | st.complex_numbers(),
    "not_negative": st.floats(max_value=-1e-9, allow_nan=False) | WORDS | LISTS | ARRAYS,
    "count": st.integers(max_value=0) | st.floats() | WORDS | LISTS | ARRAYS,
    "choice": WORDS | st.integers() | LISTS | ARRAYS,
    "names": st.integers() | WORDS | st.lists(WORDS, min_size=3, max_size=5),
    "model": st.integers() | WORDS | LISTS | ARRAYS,
    "method": st.integers() | WORDS | LISTS | ARRAYS,
}


@pytest.mark.parametrize("kind", DRAWN)
def test_whatever_is_drawn_gets_a_sentence(kind):
    takes = [(s, a) for s in bad_inputs.SPECS for a, k in s.kinds.items() if k == kind]
    counts = collections.Counter()

    @hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(place=st.sampled_from(takes), fault=DRAWN[kind])
    def check(place, fault):
        spec, argument = place
        words = (argument, *bad_inputs.ALSO.get(argument, ()))
        assert not complaint(attempt(lambda: spec.call(argument, fault)), words)
        counts[kind] += 1

    check()
    tell("drawn faults", counts)


# ---- files and the command line ----


def command(arguments, capsys):
    """Return the exit code and the output."""
    try:
        code = cli.main(["discover", *arguments, "--no-plot", "--quiet"])
    except SystemExit as left:
        code = left.code
    return code, capsys.readouterr().err


def test_every_bad_file_gets_one_line_that_names_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts, wrong = collections.Counter(), []
    for name, content, options, words in bad_files.FILES:
        bad_files.write(tmp_path / name, content)
        error = attempt(
            lambda n=name, o=options: answers.append(command([n, "--dt=1", *o], capsys))
        )
        code, said = answers.pop() if error is None else (None, repr(error))
        good = code == 2 and said.startswith("ndde-jax: error: ") and said.count("\n") == 1
        # A fault in an option is reported for the option.
        names_it = name in said or any(option.partition("=")[0] in said for option in options)
        if not (good and names_it and words in said):
            wrong.append(f"{name} {options}: {code} {said}")
        counts[name.rpartition(".")[2]] += 1
        assert not (tmp_path / "result").exists(), name
    tell("bad files, by format", counts)
    assert not wrong, "\n" + "\n".join(wrong)


answers: list = []


def test_every_bad_command_gets_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / bad_files.OK).write_text(bad_files.CSV)
    wrong = []
    for arguments, words in bad_files.COMMANDS:
        error = attempt(lambda a=arguments: answers.append(command(a, capsys)))
        code, said = answers.pop() if error is None else (None, repr(error))
        last = said.strip().splitlines()[-1] if said.strip() else ""
        if code != 2 or "error: " not in last or words not in last or "Traceback" in said:
            wrong.append(f"{arguments}: {code} {said}")
    tell("bad commands", collections.Counter(arguments=len(bad_files.COMMANDS)))
    assert not wrong, "\n" + "\n".join(wrong)


def test_odd_files_are_read_and_said_so(tmp_path):
    for name, content, options, expected, notice in bad_files.READ:
        table = read_table(bad_files.write(tmp_path / name, content), **options)
        np.testing.assert_allclose(table.values, expected, atol=1e-4, err_msg=name)
        assert bool(table.notices) == (notice is not None), name
        assert notice is None or (notice in table.notices[0] and name in table.notices[0])
        if table.stamps is not None:
            assert sampling(table.stamps)[:2] == (1.0, "hour")
    tell("odd files that are read", collections.Counter(files=len(bad_files.READ)))


# ---- accepted ----


def test_what_looks_odd_and_is_right_is_accepted():
    x, key = bad_inputs.X, bad_inputs.key()
    windows = bad_inputs.windows()

    def same(other, expected=windows):
        leaves = zip(jax.tree.leaves(other), jax.tree.leaves(expected), strict=True)
        return all(np.allclose(a, b, equal_nan=True, atol=1e-5) for a, b in leaves)

    make = lambda x, **options: ndde.lagged_windows(x, **{"dt": 0.5, "lags": (0, 1)} | options)  # noqa: E731
    integers = np.round(10 * x).astype(int)
    accepted = {
        "lists": same(make(x.tolist(), lags=[0, 1])),
        "lags of NumPy": same(make(x, lags=np.arange(2))),
        "lags as a range": same(make(x, lags=range(2))),
        "float32": same(make(x.astype(np.float32))),
        "Fortran order": same(make(np.asfortranarray(x))),
        "masked": same(make(np.ma.masked_invalid(x))),
        "a series": make(x[:, 0]).dim == 1,
        "whole numbers": same(make(integers), make(integers.astype(float))),
        "booleans": make(x > 0).dim == 2,
        "dt of NumPy": same(make(x, dt=np.float32(0.5))),
        "time stamps": same(make(x, dt=None, t=0.5 * np.arange(60))),
        "gaps": int(make(np.where(np.arange(60)[:, None] == 9, np.nan, x)).dropped) == 3,
        "names that are numbers": same(make(x, names=(1, 2))),
        "large units": same(make(1e30 * x).history, windows.history),
        "small units": same(make(1e-30 * x).history, windows.history),
    }
    graph = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 1]]])
    config = ndde.fitting.StrengthConfig(restarts=1, steps=2)
    fitted = ndde.fitting.fit_graph(windows, graph, key=key, config=config)
    for name, other in {
        "0 and 1 as edges": (graph.astype(float), key),
        "booleans as edges": (graph.astype(bool), key),
        "nested lists as edges": (graph.tolist(), key),
        "an old key": (graph, jax.random.PRNGKey(0)),
        "an old key of NumPy": (graph, np.asarray(jax.random.PRNGKey(0))),
    }.items():
        accepted[name] = same(
            ndde.fitting.fit_graph(windows, other[0], key=other[1], config=config), fitted
        )
    wrong = [name for name, right in accepted.items() if not right]
    tell("accepted", collections.Counter(cases=len(accepted)))
    assert not wrong


def test_tracers_pass_and_what_needs_numbers_says_so():
    windows, model, key = bad_inputs.windows(), bad_inputs.model(), bad_inputs.key()
    config = ndde.fitting.StrengthConfig(restarts=1, steps=1)
    x = jnp.asarray(bad_inputs.X)
    radius = jax.jit(lambda r: ndde.confine(model, radius=r).radius)(jnp.ones(2))
    np.testing.assert_array_equal(radius, 1)
    fitted = jax.jit(lambda g, k: ndde.fitting.fit_graph(windows, g, key=k, config=config).mask)
    np.testing.assert_array_equal(fitted(jnp.ones(bad_inputs.SHAPE, bool), key), True)
    made = jax.jit(lambda x, dt: ndde.lagged_windows(x, dt=dt, lags=(0, 1)).history)(x, 0.5)
    np.testing.assert_allclose(made, windows.history, atol=1e-5)
    needs = {
        "noise_covariance": lambda x: ndde.check.noise_covariance(
            ndde.lagged_windows(x, dt=0.5, lags=(0, 1)), model
        ),
        "residual_memory": lambda x: ndde.check.residual_memory(
            ndde.lagged_windows(x, dt=0.5, lags=(0, 1)), model
        ),
        "equations": lambda x: len(ndde.equations(eqx.tree_at(lambda m: m.dt, model, x[0, 0]))),
        "discover": lambda x: ndde.discover(x, dt=0.5, key=key).scores,
        "discover_many": lambda x: (
            ndde.discover_many([x], dt=0.5, key=key, progress=False)[0].scores
        ),
        "thin_windows": lambda x: ndde.windows.thin_windows(ndde.lagged_windows(x, dt=0.5)).history,
        "refine_delays": lambda x: (
            ndde.measure.refine_delays(x, bad_inputs.graph(), dt=0.5, lags=(0, 1)).delay
        ),
        "fit_many": lambda x: (
            ndde.fit_many(ndde.NODE(), [ndde.lagged_windows(x, dt=0.5)], key=key, progress=False)[
                0
            ].risk
        ),
        "edge_stability": lambda x: (
            ndde.measure.edge_stability(ndde.lagged_windows(x, dt=0.5), key=key).selected
        ),
    }
    # Only traced: run op by op, these would be compiled op by op.
    transforms = {
        "jit": lambda f: jax.eval_shape(f, x),
        "vmap": lambda f: jax.eval_shape(jax.vmap(f), x[None]),
        "grad": lambda f: jax.eval_shape(jax.grad(lambda x: jnp.sum(jnp.asarray(f(x)))), x),
    }
    for name, function in needs.items():
        for transform in transforms.values():
            error = attempt(lambda t=transform, f=function: t(f))
            assert not complaint(error, (name,))
            assert re.search(rf"{name}.* inside jit, vmap or grad", str(error))
    tell("inside transforms", collections.Counter(cases=len(needs) * len(transforms)))


def test_a_fit_that_stops_by_itself_has_no_reverse_derivative_and_says_so():
    windows, key = bad_inputs.windows(), bad_inputs.key()
    sizes = dict(max_steps=20, epoch_steps=10, newton_steps=2, width=2, depth=1, refine="none")

    def risk(coefficient, patience):
        method = ndde.L0NDDE(coefficient=coefficient, path=())
        return jnp.sum(
            ndde.fit(method, windows, ndde.FitConfig(patience=patience, **sizes), key=key).risk
        )

    with pytest.raises(
        RuntimeError, match=r"the number of steps of fit.*use FitConfig\(patience=None\)"
    ):
        jax.grad(risk)(0.1, 20)
    value, forward = jax.jvp(lambda c: risk(c, 20), (0.1,), (1.0,))
    np.testing.assert_allclose(value, risk(0.1, 20), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(risk)(0.1, None), forward, rtol=1e-3, atol=1e-9)
