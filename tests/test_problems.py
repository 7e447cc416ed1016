"""Every finding has its page, and the data of its picture raise it, in contrast to good data."""

import dataclasses
import importlib
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.check import RULES
from ndde_jax.check._conditioning import condition_number
from ndde_jax.check._line_rules import COLLINEAR
from ndde_jax.check._verdict import verdict

PROBLEMS = Path(__file__).parents[1] / "docs" / "problems"


def _load():
    """The script as Python runs it: its own folder is searched first."""
    sys.path.insert(0, str(PROBLEMS))
    try:
        return importlib.import_module("pictures")
    finally:
        sys.path.remove(str(PROBLEMS))


pictures = _load()
PAIRS = pictures.pairs()


FINDINGS = {entry.name for entry in RULES.values() if entry.about in ("samples", "graph")}
LINES = {entry.name for entry in RULES.values() if entry.about in ("line", "refits")}


def page(name):
    return (PROBLEMS / f"{pictures.slug(name)}.md").read_text("utf-8")


def test_the_registry_holds_all_that_belongs_to_a_finding():
    assert {"season", "held values", "missing rows", "weak edges", "near duplicate"} <= FINDINGS
    assert {"condition number", "stable edges", "no hidden driver"} <= LINES
    assert not FINDINGS & LINES
    for key, entry in RULES.items():
        assert entry.sentence and callable(entry.test), key
        if entry.about != "line":
            assert entry.remedy, key
            limits = entry.limits
            given = (limits.note, limits.reservation, limits.problem) != (None, None, None)
            assert given == bool(limits.why), key


def test_limits_weigh_a_size_from_either_side():
    up = ndde.check.Limits(note=0.0, reservation=1.0, problem=2.0)
    assert [up.weight(size) for size in (0.0, 0.5, 1.5, 2.5, float("nan"))] == [
        *(None, "note", "reservation", "problem", None)
    ]
    down = ndde.check.Limits(reservation=30.0, problem=12.0, below=True)
    assert [down.weight(size) for size in (31, 20, 5)] == [None, "reservation", "problem"]


def test_a_finding_of_ones_own_joins_the_verdict_and_hits_of_one_kind_are_one():
    """Three variables have the finding; the largest is reported."""
    sizes = {"a": 0.4, "b": 0.9, "c": 0.8}

    def test(evidence):
        for name, size in sizes.items():
            yield ndde.check.Hit(size, {"name": name}, variable=name)

    add = ndde.check.rule(
        "odd", "samples", "{name} is odd.", "Look at {name}.", limits=ndde.check.Limits(note=0.5)
    )
    try:
        assert add(test) is test
        with pytest.raises(ValueError, match="named 'odd' already"):
            add(test)
        x = np.random.default_rng(0).normal(size=(500, 2))
        (found,) = ndde.data_findings(ndde.read_samples(x, dt=1.0))
        assert (found.text, found.remedy) == ("b is odd. The same holds for c.", "Look at b.")
        assert found.page == "docs/problems/odd.md" and found.value == 0.9
    finally:
        RULES.pop("odd", None)
    with pytest.raises(ValueError, match="about must be"):
        ndde.check.rule("odd", "weather", "")


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
    )  # in words, for those who cannot see
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
    """Each side shows something, in colours that colour-blind readers can distinguish."""
    pytest.importorskip("matplotlib")
    for name, pair in PAIRS.items():
        left, right = pictures.picture(pair).axes
        for ax, colour in ((left, pictures.BAD), (right, pictures.GOOD)):
            assert ax.lines or ax.patches, name
            assert ax.title.get_text() == "" and ax.get_title(loc="left"), name
            drawn = [artist.get_color() for artist in ax.lines]
            drawn += [artist.get_facecolor() for artist in ax.patches]
            assert drawn, (name, colour)
