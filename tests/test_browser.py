"""The pages and the report in a real browser: nothing overflows, no request fails, and people with
low vision or colour blindness can read them.
"""

import contextlib
import functools
import http.server
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.check.test_report import EDGES, found_on, noise

ROOT = Path(__file__).parents[1]
MAIN = ("", "choosing/", "data_problems/", "gallery/", "use/")
MORE = ("problems/season/", "notebooks/twenty_units/", "api/discover/")
WIDTHS = (360, 1440)
# By axe-core, https://www.deque.com/axe. The theme's script makes one unnamed landmark for the copy
# button of every block of code, which nothing here can name.
RULES = {"rules": {"landmark-unique": {"enabled": False}}}
AXE = importlib.util.find_spec("axe_playwright_python")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not (CHROMIUM and importlib.util.find_spec("playwright")),
        reason="needs chromium, and playwright from PyPI",
    ),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of the files of a folder, without a log line for each."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(folder):
    """The address of a served folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as address:
        yield tmp_path, address


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built pages."""
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("latex2mathml")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    with serving(folder) as address:
        yield address


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def seen(addresses):
    """Faults of pages, at both widths: too wide, errors, pictures without text, titles that skip a
    level.
    """
    with chromium() as browser:
        for address in addresses:
            for width in WIDTHS:
                page = browser.new_page(viewport={"width": width, "height": 900})
                wrong = []
                page.on("console", lambda m: m.type == "error" and wrong.append(m.text))  # noqa: B023
                page.on("pageerror", lambda error: wrong.append(str(error)))  # noqa: B023
                page.goto(address)
                wide = page.evaluate("document.documentElement.scrollWidth")
                mute = page.evaluate("[...document.images].filter(i => !i.alt).length")
                broken = page.evaluate("[...document.images].filter(i => !i.naturalWidth).length")
                titles = page.evaluate(
                    "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
                )
                page.close()
                yield address, width, {"wide": max(wide - width, 0), "mute": mute,
                                       "broken": broken, "errors": wrong,
                                       "skips": skips(titles)}  # fmt: skip


def skips(levels):
    """Pairs of titles of which the second is more than one level below, and a first title that is
    missing or duplicated.
    """
    first = [] if levels.count(1) == 1 else [f"{levels.count(1)} first titles"]
    return first + [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1]


def unreadable(addresses):
    """Accessibility rules that pages break, in light and dark, at both widths."""
    script = Path(AXE.origin).parent / "axe.min.js"
    with chromium() as browser:
        for address in addresses:
            for scheme in ("light", "dark"):
                for width in WIDTHS:
                    view = {"width": width, "height": 900}
                    page = browser.new_page(viewport=view, color_scheme=scheme)
                    page.goto(address)
                    page.add_script_tag(path=str(script))
                    found = page.evaluate("rules => axe.run(rules)", RULES)["violations"]
                    page.close()
                    shown = {rule["id"]: rule["nodes"][0]["html"][:200] for rule in found}
                    yield address, scheme, width, shown


def test_what_is_wrong_is_seen(served):
    folder, address = served
    (folder / "bad.html").write_text(
        '<div style="width: 400px">x</div><img src="gone.png"><script>nothing()</script>'
        "<h1>a</h1><h3>b</h3><h1>c</h1>"
    )
    (_, _, narrow), (_, _, wide) = seen([address + "bad.html"])
    assert narrow["wide"] > 0 and wide["wide"] == 0
    assert narrow["mute"] == narrow["broken"] == 1 and len(narrow["errors"]) >= 2
    assert narrow["skips"] == ["2 first titles", (1, 3)]


FINE = {"wide": 0, "mute": 0, "broken": 0, "errors": [], "skips": []}
needs_axe = pytest.mark.skipif(not AXE, reason="needs axe-playwright-python from PyPI")


def test_the_main_pages(site):
    for page, width, wrong in seen([site + name for name in MAIN + MORE]):
        assert wrong == FINE, (page, width)


def test_command_verdict_and_picture_of_the_front_page_fit_one_screen(site):
    box = "document.querySelector('article {}').getBoundingClientRect().{}"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(site)
        top, bottom = (page.evaluate(box.format(*of)) for of in (("pre", "top"), ("img", "bottom")))
        assert 0 < bottom - top < 900


@needs_axe
def test_what_is_unreadable_is_seen(served):
    folder, address = served
    (folder / "bad.html").write_text('<img src="a.png"><p style="color: #aaa">pale</p>')
    for *_, broken in unreadable([address + "bad.html"]):
        assert {"color-contrast", "image-alt", "html-has-lang"} <= set(broken)


@needs_axe
def test_the_main_pages_can_be_read_by_all(site):
    for page, scheme, width, broken in unreadable([site + name for name in MAIN + MORE]):
        assert not broken, (page, scheme, width)


@pytest.fixture
def report(served):
    """The file of a report with long names."""
    folder, address = served
    found = found_on(noise(), edges=EDGES, names=("a long name of a variable", "another_one" * 4))
    pictures = {"lag_matrix.png": (ROOT / "docs" / "tropical_pacific.png").read_bytes()}
    pictures["effects.png"] = pictures["lag_matrix.png"]
    page = found.report_data().html(pictures=pictures, repeat=("x " * 200,))
    (folder / "report.html").write_bytes(page)
    (folder / "favicon.ico").touch()
    return address + "report.html"


def test_the_report(report):
    for _, width, wrong in seen([report]):
        assert wrong == FINE, width
    if AXE:
        for _, scheme, width, broken in unreadable([report]):
            assert not broken, (scheme, width)


def test_the_report_on_paper(report):
    """In print nothing is folded away, and nothing is wider than the page, which is A4."""
    seen_at_all = "document.querySelector('details pre').checkVisibility()"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 680, "height": 1000})
        page.goto(report)
        assert not page.evaluate(seen_at_all)
        page.emulate_media(media="print")
        assert page.evaluate(seen_at_all)
        assert page.evaluate("document.documentElement.scrollWidth") <= 680
        assert len(page.pdf(format="A4")) > 10_000
