"""Contents of an installation: bounds, workflows, and files that are not Python."""

import importlib.resources
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# The installation of users, and the requirements of tests; the other extras are for benchmarks,
# pages and types.
TESTED = [
    *PROJECT["dependencies"],
    *(line for name in ("data", "plot", "test") for line in PROJECT["optional-dependencies"][name]),
]


def lower_bounds():
    """The oldest release by package; pinned or bounded packages have no other to try."""
    found = (re.match(r"([\w-]+)>=([\d.]+)(,.*)?$", line) for line in TESTED)
    return {m[1].lower(): m[2] for m in found if m and "<" not in (m[3] or "")}


def test_the_oldest_releases_that_are_tried_are_the_lower_bounds():
    lines = (ROOT / ".ci" / "oldest.txt").read_text("utf-8").splitlines()
    tried = {
        m[1].lower(): m[2] for m in (re.match(r"([\w-]+)==([\d.]+)", line) for line in lines) if m
    }
    assert tried == lower_bounds() and "numpy" in tried


def test_workflows_try_every_python_that_is_declared():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow)[1]) == declared
    assert ".ci/oldest.txt" in workflow


def test_pictures_and_links_of_the_readme_are_made_absolute_for_a_release():
    absolute = runpy.run_path(str(ROOT / ".ci" / "absolute_links"))["absolute"]
    text = "![a](docs/a.png) [b](docs/b.md#c) [d](https://e.org/f) [g](#h)"
    assert absolute(text, "https://host/us/it", "123") == (
        "![a](https://host/us/it/raw/123/docs/a.png) [b](https://host/us/it/blob/123/docs/b.md#c) "
        "[d](https://e.org/f) [g](#h)"
    )
    readme = absolute((ROOT / "README.md").read_text("utf-8"), "https://host/us/it", "123")
    assert all(re.match("https?:", link) for link in re.findall(r"\]\(([^)]+)\)", readme))


def test_the_style_of_the_gallery_is_in_the_package():
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("matplotlib.style")
    with importlib.resources.as_file(
        importlib.resources.files("ndde_jax.plot") / "talk.mplstyle"
    ) as file:
        style = matplotlib.rc_params_from_file(file, use_default_template=False)
    assert len(style["axes.prop_cycle"]) == 7 and not style["legend.frameon"]
    with matplotlib.style.context("ndde_jax.plot.talk"):
        assert matplotlib.rcParams["figure.dpi"] == 160
