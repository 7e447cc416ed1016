"""The pages and the report in a real browser: nothing sticks out, nothing is asked for in vain."""

import functools
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ndde_jax._html_report import html_report
from tests.check.test_report import EDGES, found_on, noise

ROOT = Path(__file__).parents[1]
MAIN = ("", "choosing/", "data_problems/", "problems/season/", "gallery/", "api/discover/")
WIDTHS = (360, 1440)
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
    """Files of a folder, without a line for each."""

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    """A folder, and the address under which it is served."""
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def seen(addresses):
    """What is wrong with pages, at both widths: too wide, errors, pictures without words."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
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
                page.close()
                yield address, width, {"wide": max(wide - width, 0), "mute": mute,
                                       "broken": broken, "errors": wrong}  # fmt: skip
        browser.close()


def test_what_is_wrong_is_seen(served):
    folder, address = served
    (folder / "bad.html").write_text(
        '<div style="width: 400px">x</div><img src="gone.png"><script>nothing()</script>'
    )
    (_, _, narrow), (_, _, wide) = seen([address + "bad.html"])
    assert narrow["wide"] > 0 and wide["wide"] == 0
    assert narrow["mute"] == narrow["broken"] == 1 and len(narrow["errors"]) >= 2


FINE = {"wide": 0, "mute": 0, "broken": 0, "errors": []}


def test_the_main_pages(served):
    pytest.importorskip("mkdocstrings")
    folder, address = served
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    for page, width, wrong in seen([address + name for name in MAIN]):
        assert wrong == FINE, (page, width)


def test_the_report(served):
    folder, address = served
    found = found_on(noise(), edges=EDGES, names=("a long name of a variable", "another_one" * 4))
    pictures = {"lag_matrix.png": (ROOT / "docs" / "lag_matrix.png").read_bytes()}
    pictures["effects.png"] = pictures["lag_matrix.png"]
    page = html_report(found, found.report(full=True), pictures=pictures, repeat=("x " * 200,))
    (folder / "report.html").write_bytes(page)
    (folder / "favicon.ico").touch()
    for _, width, wrong in seen([address + "report.html"]):
        assert wrong == FINE, width
