"""Every notebook runs from top to bottom."""

import json
import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def run(name, *, with_outputs=False):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert with_outputs or not cell.outputs, "commit notebooks without outputs"
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return [
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def test_every_notebook_has_its_picture_in_the_gallery():
    gallery = (NOTEBOOKS.parent / "docs" / "gallery.md").read_text("utf-8")
    pictures = {file.stem for file in (NOTEBOOKS.parent / "docs" / "gallery").glob("*.png")}
    assert pictures == {file.stem for file in NOTEBOOKS.glob("*.ipynb")}
    for file in NOTEBOOKS.glob("*.ipynb"):
        cells = nbformat.read(file, as_version=4).cells
        assert sum("picture" in cell.metadata.get("tags", ()) for cell in cells) == 1, file.name
        for address in (f"gallery/{file.stem}.png", f"../notebooks/{file.name}"):
            assert f"]({address})" in gallery, address


def test_what_the_site_says_that_cells_print_is_of_these_cells():
    files = list((NOTEBOOKS.parent / "docs" / "gallery").glob("*.json"))
    assert files
    for file in files:
        cells = nbformat.read(NOTEBOOKS / f"{file.stem}.ipynb", as_version=4).cells
        printing = {cell.id for cell in cells if cell.cell_type == "code"}
        assert set(json.loads(file.read_text("utf-8"))) <= printing, file.name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_flies_that_compete():
    text = "".join(run("flies_that_compete.ipynb"))
    delay = float(re.search(r"lag 15 days .* delay ([\d.]+)", text)[1])
    strength = {m[1]: float(m[2]) for m in re.finditer(r"lag +(\d+) days +strength ([\d.]+)", text)}
    assert abs(delay - 15) < 0.5 and max(strength, key=strength.get) == "15"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_laser_with_feedback():
    text = "".join(run("a_laser_with_feedback.ipynb"))
    # The curve is that of the modulator, and the loop is found without any other edge.
    assert float(re.search(r"largest error of the curve: ([\d.]+)%", text)[1]) < 5
    edges = re.findall(r"(\w) -> (\w)  delay ([\d.]+)", text)
    assert [edge[:2] for edge in edges] == [("x", "x"), ("x", "x"), ("x", "y"), ("y", "x")]
    assert abs(float(edges[1][2]) - 1) < 0.01 and "Verdict: supported" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_designing_an_input():
    text = "".join(run("designing_an_input.ipynb"))
    before, after = re.search(r"from the wish: ([\d.]+) before, ([\d.]+) after", text).groups()
    assert float(before) < 0.5 and float(after) < 0.15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_flood_and_its_rivers():
    text = "".join(run("a_flood_and_its_rivers.ipynb"))
    # The Elbe from gauge to gauge, and the other statements of its text.
    assert all(f"{pair} " in text for pair in ("177 -> 176", "176 -> 175", "175 -> 174"))
    hits, links = map(int, re.search(r"(\d+) of (\d+) links are on the map", text).groups())
    assert "Verdict: not supported" in text and links <= 20 and hits >= 7
    assert re.search(r"missed, into the Elbe +20 .* beyond a day: 19", text)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_network_of_neural_masses():
    text = "".join(run("a_network_of_neural_masses.ipynb"))
    assert "false:  []" in text and "missed: []" in text
    delays = re.findall(r"-> \w  ([\d.]+) ms .* true ([\d.]+) ms", text)
    assert len(delays) == 6 and all(abs(float(a) - float(b)) < 1 for a, b in delays)
    # Without prior knowledge inhibitory cells are proxies for excitatory ones.
    assert re.search(r"^i\w -> e\w  12 ms", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_glucose_and_insulin():
    text = "".join(run("glucose_and_insulin.ipynb")).partition("candidates")[0]
    rows = re.findall(r"(\w+) -> (\w+) +([\d.]+) min \( ?([\d.]+) to +([\d.]+)\)", text)
    found = {(a, b, float(low) <= 7 <= float(high), float(low) <= 36 <= float(high))
             for a, b, _, low, high in rows}  # fmt: skip
    assert found == {
        ("glucose", "insulin", True, False),
        ("glucose", "glucose", True, False),  # at once, as its text says
        ("insulin", "glucose", False, True),
        ("insulin", "glucose", True, False),  # at once, or up to the next candidate
        ("insulin", "insulin", False, False),
        ("infusion", "glucose", True, False),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_twenty_units():
    text = "".join(run("twenty_units.ipynb"))
    right, false = re.search(r"1000 days: +(\d+) of 40 lines, +(\d+) false", text).groups()
    assert int(right) >= 38 and int(false) <= 2
    assert re.search(r" 250 days: .* not supported", text)
    assert re.search(r" 500 days: .* with reservations", text)
    straight, told = re.findall(r"regression on \w+ +(\d+) of its best forty", text)
    assert int(straight) < 5 and int(told) > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_hundred_pupils():
    text = "".join(run("a_hundred_pupils.ipynb"))
    assert "Failed(index=57" in text and text.count("Failed(") == 1
    rows = re.findall(r"^(10|20|40) +(\d+) +(\d+) +([\d.]+) +(\d+)", text, re.MULTILINE)
    error = {int(seconds): float(median) for seconds, _, _, median, _ in rows}
    held = {int(seconds): int(inside) / int(found) for seconds, _, found, _, inside in rows}
    assert error[40] < 0.015 and error[40] < error[20] < error[10] < 0.04
    assert held[40] > held[10]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_first_look_at_real_data():
    text = "".join(run("first_look_at_real_data.ipynb"))
    assert "SOI" in text and "Edges kept" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_reading_a_graph_with_delays():
    text = "".join(run("reading_a_graph_with_delays.ipynb"))
    assert "missed: []" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_delay_of_el_nino():
    text = "".join(run("the_delay_of_el_nino.ipynb"))
    # The figures that its text quotes.
    assert "best: 5 months; not worse: [4 5 6 7]" in text
    kept = [int(lag) for lag in re.findall(r"lag +(\d+) months .* kept", text)]
    held = int(re.search(r"intervals that hold it: (\d+) of 30", text)[1])
    assert kept == [0, 3, 6] and held >= 24
    assert "first half: best at 3 months" in text and "second half: best at 5 months" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_from_a_noisy_delayed_oscillator_to_its_spectrum():
    # Its text quotes figures, so it is stored with the outputs they come from.
    text = "".join(run("from_a_noisy_delayed_oscillator_to_its_spectrum.ipynb", with_outputs=True))
    assert "missed: []" in text and "false:  []" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_delay_and_its_posterior():
    text = "".join(run("a_delay_and_its_posterior.ipynb"))
    assert float(re.search(r"R-hat at most ([\d.]+)", text)[1]) < 1.02
    number = r"([\d.]+)"
    rows = re.findall(rf"from {number} to {number}; true {number}", text)
    assert len(rows) == 4 and all(
        float(low) < float(true) < float(high) for low, high, true in rows
    )
