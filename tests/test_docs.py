"""The pages: every public name is documented, programs compile or run, links lead somewhere."""

import ast
import dis
import importlib.util
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import ndde_jax
from tests.pages import AFTER, CONTINUED, ELSEWHERE, given, unknown

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LOOSE = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
READMES = sorted((ROOT / "benchmarks").rglob("README.md"))
WRITTEN = [*PAGES, *LOOSE, *READMES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")

# Contents of public modules, as [`x`](api/x.md) has it; a page shows no module as such.
MODULES = (
    "check", "fitting", "gates", "measure", "metrics", "models", "plot", "samples", "select",
    "simulate", "systems", "theory", "use", "windows",
)  # fmt: skip
# Programs that take a second or two; the others that are whole are run by `pytest -m slow`.
QUICK = ("choosing.md[0]", "guides/missing_values.md[0]", "data_problems.md[0]")


def programs(*languages):
    """Code blocks of these languages by page and number."""
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        name = page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()
        blocks = [code for language, code in FENCE.findall(page.read_text("utf-8"))
                  if language in languages]  # fmt: skip
        yield from ((f"{name}[{i}]", code) for i, code in enumerate(blocks))


PROGRAMS = dict(programs("python"))


def printed():
    """The output of programs that pages state: text directly below, with nothing in between."""
    for page in [*PAGES, ROOT / "README.md"]:
        blocks = list(FENCE.finditer(page.read_text("utf-8")))
        for first, second in itertools.pairwise(blocks):
            if (first[1], second[1]) == ("python", "text") and second.start() == first.end() + 2:
                yield from (
                    (name, second[2]) for name, code in PROGRAMS.items() if code == first[2]
                )


PRINTED = dict(printed())


def exported(path):
    """Names that a file re-exports, `from ._fit import fit as fit`."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            yield from (a.asname for a in node.names if a.asname and not a.asname.startswith("_"))


def referenced():
    """Names that the pages of the reference show."""
    text = "".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    return re.findall(r"^::: ndde_jax\.(\S+)$", text, re.MULTILINE)


def test_every_public_name_has_its_place_in_the_reference():
    names = {
        name
        for name in exported(Path(ndde_jax.__file__))
        if not isinstance(getattr(ndde_jax, name), types.ModuleType)
    }
    for module in MODULES:
        file = Path(ndde_jax.__file__).parent / module / "__init__.py"
        file = file if file.exists() else file.parent.with_suffix(".py")
        names |= {f"{module}.{name}" for name in exported(file)}
    shown = referenced()
    assert {"discover", "select.Gates", "plot.plot_lag_matrix"} <= names
    assert sorted(shown) == sorted(set(shown)), "a name is shown twice"
    assert names - set(shown) == set()


@pytest.mark.parametrize("name", referenced())
def test_what_the_reference_shows_exists(name):
    value = importlib.import_module("ndde_jax.plot") if name.startswith("plot.") else ndde_jax
    for part in name.removeprefix("plot.").split("."):
        value = getattr(value, part)
    assert value.__doc__


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile(name):
    assert ast.parse(PROGRAMS[name]).body


def test_the_lists_of_programs_name_programs():
    assert {*QUICK, *CONTINUED, *ELSEWHERE, *AFTER} <= set(PROGRAMS)
    assert "guides/equations.md[0]" in PRINTED


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_begin_from_nothing_or_are_continued(name):
    whole = name not in (*CONTINUED, *ELSEWHERE)
    before = PROGRAMS.get(AFTER.get(name), "")
    assert not (whole and unknown(before + PROGRAMS[name]))


def parts(text):
    """Words and numbers: readers compute in single precision."""
    number = r"-?\d+(?:\.\d+)?"
    return re.sub(number, "#", text), np.array(re.findall(number, text), float)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK))
        for name in PROGRAMS
        if name not in (*CONTINUED, *ELSEWHERE) and not name.startswith("CONTRIBUTING")
    ],
)
def test_whole_programs_run(name, tmp_path, monkeypatch, capsys):
    """They also print the block of text directly below, if there is one."""
    monkeypatch.chdir(tmp_path)
    before = PROGRAMS.get(AFTER.get(name), "")
    exec(compile(before + PROGRAMS[name], name, "exec"), {})
    if name in PRINTED:
        words, numbers = parts(capsys.readouterr().out)
        assert words == parts(PRINTED[name])[0]
        np.testing.assert_allclose(numbers, parts(PRINTED[name])[1], rtol=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONTINUED)
def test_continued_programs_run(name, tmp_path, monkeypatch):
    """With variables from the text around them; every given name is used."""
    monkeypatch.chdir(tmp_path)
    scope, program = given(tmp_path), compile(PROGRAMS[name], name, "exec")
    exec(program, scope)
    stored = {i.argval for i in dis.get_instructions(program) if i.opname == "STORE_NAME"}
    assert all(scope[word] is not None for word in stored)


@pytest.mark.slow
def test_what_contributors_are_shown_works(tmp_path):
    """In its own process: it registers a system."""
    blocks = [code for name, code in PROGRAMS.items() if name.startswith("CONTRIBUTING")]
    used = """
import jax, numpy as np
import ndde_jax as ndde
x = np.random.default_rng(0).normal(size=(200, 2))
windows = ndde.lagged_windows(x, dt=1.0)
assert ndde.recover(windows, FewDrivers(most=1), key=jax.random.key(0)).graph.sum(0).max() <= 1
result = ndde.fit(Lasso(), windows, ndde.FitConfig(max_steps=20), key=jax.random.key(0))
assert ndde.edge_scores(result).shape == (2, 2, 1)
drift = ndde.fit_drift(windows, "full", Linear(), key=jax.random.key(0)).drift
z, y = (np.asarray(a, float) for a in (windows.history[:, 0], windows.increment))
known = np.linalg.lstsq(np.column_stack([np.ones(len(z)), z]), y, rcond=None)[0]
one_step = Linear().fit(windows.history, windows.increment, windows.weight,
                        np.ones((2, 1, 2), bool), key=jax.random.key(0))
np.testing.assert_allclose(one_step.slopes[:, 0], known[1:].T, rtol=1e-3, atol=1e-3)
recipe = ndde.Recipe(strategy=FewDrivers(), family=Linear(), passes=1)
found = ndde.discover(x, dt=1.0, lags=(0, 1), recipe=recipe, key=jax.random.key(0))
found.save("kept")
again = ndde.Discovery.load("kept")
assert (again.recipe.strategy, again.recipe.family) == (FewDrivers(), Linear())
history = np.zeros((2, 2))
np.testing.assert_array_equal(again.model(history), found.model(history))
system = ndde.systems.get("wright")
slope = system.jacobian(0.0, np.array([0.3]), np.array([[0.2]]))
assert (np.asarray(slope != 0)[:, 0, 0] == np.asarray(system.graph)[0, 0]).all()
raised = {f.name for f in ndde.data_findings(ndde.read_samples(x, dt=1.0))}
x[::2] += 9
told = {f.name for f in ndde.data_findings(ndde.read_samples(x, dt=1.0))}
assert "alternating" in told - raised
"""
    command = [sys.executable, "-W", "error", "-c", "\n".join([*blocks, used])]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # The text leads to these suites.
    strict = {"JAX_NUMPY_RANK_PROMOTION": "raise", "JAX_NUMPY_DTYPE_PROMOTION": "strict"}
    environment = {**os.environ, "PYTHONPATH": path, **strict}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert len(blocks) == 5 and done.returncode == 0, done.stderr


def anchors(text):
    """The anchors of headings, as Markdown on the site makes them."""
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        yield re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    for address in LINK.findall(text):
        if re.match(r"[a-z]+:", address):
            continue
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{address} leads nowhere"
        if anchor and target.suffix == ".md":
            assert anchor in set(anchors(target.read_text("utf-8"))), f"{address}: no such heading"


def test_functions_in_pages_are_in_their_files():
    text = "".join(page.read_text("utf-8") for page in PAGES)
    places = re.findall(r"`(\w+)` in `(ndde_jax/[\w/]+\.py)`", text)
    assert len(places) >= 6
    for name, file in places:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), name


def test_references_in_pages_are_to_names_that_exist():
    shown = set(referenced())
    for page in PAGES:
        for name in re.findall(r"\]\[ndde_jax\.([\w.]+)\]", page.read_text("utf-8")):
            assert name in shown or name.rpartition(".")[0] in shown, f"{page.name}: {name}"


def test_every_command_that_a_page_shows_is_understood():
    from ndde_jax.cli import _parser

    found = 0
    for _, code in programs("bash", "sh"):
        for line in code.replace("&&", "\n").splitlines():
            command = line.partition("#")[0].strip()
            if command.startswith("ndde-jax "):
                found += 1
                _parser().parse_args(shlex.split(command)[1:])
    assert found > 5


def test_figures_of_the_comparison_are_those_of_the_benchmarks():
    page = (DOCS / "compared.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", page, re.MULTILINE)
    measured = (ROOT / "benchmarks" / "delays" / "README.md").read_text("utf-8")
    tables = [[cell.strip() for cell in row.split("|")[1:-1]] for row in measured.splitlines()]
    # All but summary F1, for small systems at low noise.
    stood = [(r[2], [*r[5:10], *r[11:14]]) for r in tables if r[:2] == ["low", "1-5"]]
    assert len(rows) == 3
    assert all((name, [cell.strip() for cell in row.split("|")]) in stood for name, row in rows)
    stored = (ROOT / "benchmarks" / "dysts" / "README.md").read_text("utf-8") + measured
    said = re.findall(r"(?<![\w.])\d*\.\d+(?!\w)", re.sub(r"^\|.*$", "", page, flags=re.MULTILINE))
    assert len(said) == 4 and all(re.search(rf"[| ]{re.escape(x)} \|", stored) for x in said)


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    """Every number of a row is in the README that the row links to."""
    text = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \|(.*)\|(.*)\| \[\w+\]\((benchmarks/.*)\) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for ours, theirs, page in rows:
        measured = set(re.findall(r"\d*\.\d+", (ROOT / page).read_text("utf-8")))
        assert set(re.findall(r"\d*\.\d+", f"{ours} {theirs}")) <= measured, page
    # Those of delays are for the systems and the score of the comparison.
    page = (DOCS / "compared.md").read_text("utf-8")
    (delays,) = ((ours, theirs) for ours, theirs, page in rows if "/delays/" in page)
    exact = re.findall(r"^\| `\w+` \| [\d.]+ \| ([\d.]+) ", page, re.MULTILINE)
    assert re.findall(r"\d*\.\d+", " ".join(delays)) == exact and len(exact) == 3


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="needs ndde_jax[docs]")
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("latex2mathml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("discover", "metrics.auroc"):
        page = "discover" if name == "discover" else "metrics"
        assert f'id="ndde_jax.{name}"' in (tmp_path / "api" / page / "index.html").read_text()
    # A search for a public name finds its page, by a heading that is the name.
    index = json.loads((tmp_path / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found = {entry["location"].partition("#")[2]: entry["title"] for entry in index}
    for name in referenced():
        assert name.rpartition(".")[2] in found.get(f"ndde_jax.{name}", ""), name
    # Formulas are rendered, and the output of a notebook is below its program.
    notebook = (tmp_path / "notebooks" / "twenty_units" / "index.html").read_text("utf-8")
    assert "<math" in notebook and "$$" not in notebook and "of 40 lines, " in notebook


def test_seconds_in_the_readme_are_those_of_the_speed_page():
    page = (ROOT / "benchmarks" / "speed" / "README.md").read_text("utf-8")
    (row,) = re.findall(
        r"^\| How long does it take.*$", (ROOT / "README.md").read_text("utf-8"), re.M
    )
    measured = [
        re.search(rf"^\| {re.escape(what)}, warm +\| +([\d.]+) \|", page, re.M)
        for what in ("`ndde.discover`", "PCMCI+ (tigramite)", "sparse regression (PySINDy)")
    ]
    assert re.findall(r"\d+\.\d+", row) == [found.group(1) for found in measured if found]
