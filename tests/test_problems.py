"""Every finding has its page, and the data of its picture raise it, beside data that do not."""

import ast
import dataclasses
import importlib
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import ndde_jax as ndde
from ndde_jax.check import _beside, _checks, _data_findings, _refits, _sensors, _verdict
from ndde_jax.check._checks import COLLINEAR
from ndde_jax.check._conditioning import condition_number
from ndde_jax.check._verdict import verdict
from ndde_jax.samples import _prepare

PROBLEMS = Path(__file__).parents[1] / "docs" / "problems"
# Treatments that are found under another name.
SPOKEN = {
    "rows": "missing rows",
    "clock": "irregular clock",
    "gaps": "missing values",
    "codes": "missing values",
}


def _load():
    """The script as Python runs it: the folder that it is in is looked in first."""
    sys.path.insert(0, str(PROBLEMS))
    try:
        return importlib.import_module("pictures")
    finally:
        sys.path.remove(str(PROBLEMS))


pictures = _load()
PAIRS = pictures.pairs()


def texts(node):
    """What a name can be: a constant, or either of two."""
    if isinstance(node, ast.IfExp):
        return texts(node.body) | texts(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def names_in(module, functions, place):
    """Strings that stand at a place in calls of these functions."""
    found = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Call) and len(node.args) > place:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found |= texts(node.args[place]) if name in functions else set()
    return found


FINDINGS = (
    names_in(_data_findings, {"measured"}, 0)
    | names_in(_sensors, {"measured"}, 0)
    | names_in(_verdict, {"Finding"}, 1)
    | names_in(_beside, {"Finding"}, 1)
    | {"rhythm"}  # of select/_rhythm, a season that stays
    | {SPOKEN.get(name, name) for name in names_in(_prepare, {"treated"}, 1)}
)
LINES = names_in(_checks, {"add"}, 1) | names_in(_refits, {"add"}, 1)


def page(name):
    return (PROBLEMS / f"{pictures.slug(name)}.md").read_text("utf-8")


def test_the_lists_are_read_from_the_code():
    assert {"season", "held values", "missing rows", "weak edges", "near duplicate"} <= FINDINGS
    assert {"condition number", "stable edges", "no hidden driver"} <= LINES


def test_every_finding_has_its_page_and_its_picture():
    assert set(PAIRS) == FINDINGS
    written = {file.stem for file in PROBLEMS.glob("*.md")} - {"identifiability"}
    assert written == {pictures.slug(name) for name in FINDINGS}
    assert {file.stem for file in PROBLEMS.glob("*.svg")} == written | {"identifiability"}


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_finding_names_its_page(name):
    finding = ndde.check.Finding("measured", name, 0.0, "", "")
    assert (PROBLEMS.parents[1] / finding.page).exists()


def test_the_overview_leads_to_every_page():
    overview = (PROBLEMS.parent / "data_problems.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(problems/(\w+)\.md\)", overview))
    assert linked == {pictures.slug(name) for name in FINDINGS} | {"identifiability"}


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_page_has_its_parts(name):
    text = page(name)
    assert text.startswith(f"# {name[0].upper()}{name[1:]}\n")
    picture = re.search(r"!\[([^\]]+)\]\((\w+\.svg)\)", text)
    assert picture[2] == f"{pictures.slug(name)}.svg"
    assert (
        picture[1].startswith("Left") and "Right:" in picture[1]
    )  # in words, for those not seeing
    for part in ("The number.", "What is done about it.", "What to do."):
        assert f"**{part}** " in text


@pytest.mark.parametrize("name", sorted(LINES))
def test_lines_on_identifiability_are_explained(name):
    cells = re.findall(r"^\| ([^|]+) \|", page("identifiability"), re.MULTILINE)
    assert name in {one.strip() for cell in cells for one in cell.split(",")}


def found_in(data):
    samples = ndde.read_samples(data.x, **data.options)
    samples = ndde.prepare_samples(samples) if data.treat else samples
    return {finding.name: finding for finding in ndde.data_findings(samples)}


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if not pair.discovered])
def test_the_left_raises_its_finding_and_the_right_has_none(name):
    assert name in found_in(PAIRS[name].bad)
    assert found_in(PAIRS[name].good) == {}


def discovered(data):
    return ndde.discover(
        data.x,
        lags=data.lags,
        treat=data.treat,
        recipe=ndde.Recipe.fast(),
        key=jax.random.key(0),
        **data.options,
    )


def findings(found):
    told = found.verdict
    return {finding.name for finding in (*told.reasons, *told.notes)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name for name, pair in PAIRS.items() if pair.discovered and name != "drift not finite"],
)
def test_a_discovery_on_the_left_raises_it_and_one_on_the_right_does_not(name):
    assert name in findings(discovered(PAIRS[name].bad))
    assert name not in findings(discovered(PAIRS[name].good))


@pytest.mark.slow
def test_a_drift_that_is_no_number_is_told():
    found = discovered(PAIRS["drift not finite"].good)
    assert "drift not finite" not in findings(found)
    model = jax.tree.map(lambda a: a * jnp.nan if eqx.is_inexact_array(a) else a, found.model)
    told = verdict(dataclasses.replace(found, model=model))
    assert "drift not finite" in {finding.name for finding in told.reasons}


def test_lags_that_cannot_be_told_apart():
    pair = pictures.collinear()
    bad, good = (ndde.lagged_windows(d.x, lags=d.lags, **d.options) for d in (pair.bad, pair.good))
    assert condition_number(bad) > COLLINEAR > condition_number(good)


def test_pictures_are_drawn_from_these_data(tmp_path):
    """Each side shows something, in colours that colour-blind readers tell apart."""
    pytest.importorskip("matplotlib")
    for name, pair in PAIRS.items():
        left, right = pictures.picture(pair).axes
        for ax, colour in ((left, pictures.BAD), (right, pictures.GOOD)):
            assert ax.lines or ax.patches, name
            assert ax.title.get_text() == "" and ax.get_title(loc="left"), name
            drawn = [artist.get_color() for artist in ax.lines]
            drawn += [artist.get_facecolor() for artist in ax.patches]
            assert drawn, (name, colour)
