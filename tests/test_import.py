"""Imports of `import ndde_jax`, and documentation of everything public by examples that run."""

import ast
import collections
import doctest
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import ndde_jax

from . import bad_inputs

# Optional extras, and packages that only some functions need, must not slow the import down.
LAZY = (
    "IPython",
    "chex",
    "dysts",
    "matplotlib",
    "netCDF4",
    "optax",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "statsmodels",
    "torch",
    "tqdm",
    "xarray",
)

PROBE = """
import contextlib, io, json, sys
import jax
config, environment = dict(jax.config.values), []
sys.addaudithook(lambda event, args: "putenv" in event and environment.append(str(args)))
with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(said):
    import ndde_jax
from jax._src import xla_bridge
print(json.dumps({
    "modules": sorted(sys.modules),
    "config": [k for k, v in jax.config.values.items() if config.get(k, v) != v],
    "environment": environment,
    "backends": xla_bridge.backends_are_initialized(),
    "said": said.getvalue(),
    "file": ndde_jax.__file__,
    "names": [name for name in dir(ndde_jax) if not name.startswith("_")],
}))
import jax.numpy
jax.numpy.zeros(1)
print(json.dumps(xla_bridge.backends_are_initialized()))
"""


@pytest.fixture(scope="module")
def fresh():
    """The state of a process that has only imported the library."""
    root = str(Path(ndde_jax.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    state, after_an_array = map(json.loads, done.stdout.splitlines())
    assert state["file"] == ndde_jax.__file__
    assert after_an_array, "backends_are_initialized() reports nothing"
    return state


def test_import_leaves_optional_packages_alone(fresh):
    loaded = {name.partition(".")[0] for name in fresh["modules"]}
    assert "ndde_jax" in loaded
    assert loaded.isdisjoint(LAZY), loaded & set(LAZY)


def test_import_starts_no_backend(fresh):
    assert not fresh["backends"]


def test_import_changes_no_configuration_and_says_nothing(fresh):
    assert fresh["config"] == []
    assert fresh["environment"] == []
    assert fresh["said"] == ""


def exported(module):
    """Names that a module re-exports, `from ._fit import fit as fit`: not imports of others from
    it.

    They are read from its source, because an import of `ndde_jax.plot` anywhere adds to the module.
    """
    for node in ast.parse(Path(module.__file__).read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            yield from (alias.asname for alias in node.names if alias.asname)


def public(module, prefix=""):
    """Names and objects that a user can reach from the package without an underscore."""
    for name in exported(module):
        value = getattr(module, name)
        yield prefix + name, value
        if isinstance(value, types.ModuleType):
            yield from public(value, f"{prefix}{name}.")


def members(objects):
    """Also methods and properties that their classes define."""
    for name, value in objects:
        yield name, value
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                if isinstance(member, (classmethod, staticmethod)):
                    member = member.__func__
                if not attribute.startswith("_") and (
                    callable(member) or isinstance(member, property)
                ):
                    yield f"{name}.{attribute}", member


def docstring(value):
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return text if isinstance(text, str) else ""


MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(ndde_jax.__path__, "ndde_jax.")
]
PUBLIC = dict(public(ndde_jax))


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_a_docstring(name):
    # Own docstrings of a class, neither inherited nor the signature that dataclasses and named
    # tuples write.
    text = inspect.cleandoc(docstring(PUBLIC[name]))
    assert text and not text.startswith(f"{name.rpartition('.')[2]}(")


def test_nothing_else_is_in_the_way_of_completion(fresh):
    assert set(fresh["names"]) == set(exported(ndde_jax))
    assert {"discover", "fit", "FitConfig", "metrics.auroc", "gates.hard_mask"} <= set(PUBLIC)


def test_a_page_of_names_at_the_top_and_each_in_one_place():
    top = [name for name in exported(ndde_jax) if not inspect.ismodule(PUBLIC[name])]
    assert len(top) <= 42
    places = collections.defaultdict(set)
    for name, value in PUBLIC.items():
        places[id(value)].add(name)
    assert [names for names in places.values() if len(names) > 1] == []


# Functions without an argument that could be wrong, or for the inside of a program, where nothing
# is checked.
UNSPOILT = {
    "samples.example_names",
    "check.rule",  # a decorator; tests/test_problems.py tests its refusals
    "window_loss",
    "gates.logistic_noise",
    *(f"regression.{name}" for name in ("sums_of", "search", "search_known")),
    *(f"regression.{name}" for name in ("design_of", "find_terms", "fit_terms")),
    "regression.compare_readings",
    "regression.fit_normal",
}


def test_every_public_function_is_given_what_is_wrong():
    functions = {
        name
        for name, value in PUBLIC.items()
        if inspect.isfunction(inspect.unwrap(value)) and not name.startswith("_")
    }
    spoilt = {spec.name for spec in bad_inputs.SPECS}
    assert functions - spoilt == UNSPOILT


def documented(module):
    """Docstrings of a module's own functions, classes and methods."""
    own = [
        (n, v) for n, v in vars(module).items() if getattr(v, "__module__", 0) == module.__name__
    ]
    for name, value in [("", module), *members(own)]:
        yield f"{module.__name__}.{name}".rstrip("."), inspect.cleandoc(docstring(value))


DOCSTRINGS = dict(itertools.chain.from_iterable(map(documented, MODULES)))
PROMPTS = [name for name, text in DOCSTRINGS.items() if ">>> " in text]
PROGRAMS = {
    f"{name}[{i}]" if i else name: code
    for name, text in DOCSTRINGS.items()
    for i, code in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
}
# Whole fits; examples of other public functions take less than two seconds.
SLOW = (
    "fit._fit.fit_many",
    "check._conditioning.noise_covariance",
    "check._conditioning.residual_memory",
    "models._confine.confine",
    "_discover.discover",
    "_discover_many.discover_many",
    "fit._fit.fit",
    "use._impute.WithImputation.impute",
    "fit._flow.fit_flow",
    "check._identifiability.identifiability_report",
    "theory._recovery.drift_modulus",
    "theory._recovery.paper_strengths",
    "theory._transfer.transfer_curve",
    "simulate._lyapunov.lyapunov_spectrum",
    "select._midpoint.midpoint_windows",
    "models._model.NeuralDDE",
    "simulate._solve.rollout",
    "select._strategies.coefficient_path",
    "measure._stability.edge_stability",
    "measure._strength.signal_strengths",
    "_discovery.Discovery.resample",
    "use._effects.WithEffects.effects",
    "use._forecast.WithForecasts.forecast",
    "use._intervene.WithInterventions.intervene",
    "use._backtest.WithBacktests.backtest",
)


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_in_docstrings_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = next(m for m in reversed(MODULES) if name.startswith(m.__name__ + "."))
    test = doctest.DocTestParser().get_doctest(
        DOCSTRINGS[name], {**vars(module), "ndde": ndde_jax}, name, None, None
    )
    report = []
    failed, attempted = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        test, out=report.append
    )
    assert attempted > 0
    assert failed == 0, "".join(report)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name.removeprefix("ndde_jax.") in SLOW))
        for name in PROGRAMS
    ],
)
def test_programs_in_docstrings_run_and_print_what_they_say(name, tmp_path, monkeypatch):
    """A comment after a `print` that begins with a number or a shape is compared with it."""
    monkeypatch.chdir(tmp_path)
    code, printed = PROGRAMS[name], []
    exec(compile(code, name, "exec"), {"print": lambda *values: printed.append(values)})
    calls = [
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("print(")
    ]
    assert len(printed) == len(calls)
    for node, values in zip(calls, printed, strict=True):
        comment = code.splitlines()[node.end_lineno - 1][node.end_col_offset :].strip(" #")
        text = " ".join(map(str, values))
        if number := re.match(r"-?\d+(?:\.(\d+))?(?!\S*\d)", comment):
            decimals = len(number[1] or "")
            assert float(text) == pytest.approx(float(number[0]), abs=0.51 * 10.0**-decimals)
        elif re.match(r"\(\d", comment):
            assert text == comment


def test_examples_are_found():
    assert "ndde_jax.samples._examples.load_example" in PROMPTS
    assert "ndde_jax.windows._windows.lagged_windows" in PROGRAMS
    assert all(f"ndde_jax.{name}" in PROGRAMS for name in SLOW)
    # No example is missed, wherever it is.
    written = sum(
        Path(module.__file__).read_text("utf-8").count("```python\n") for module in MODULES
    )
    assert len(PROGRAMS) == written + ndde_jax.__doc__.count("```python")
