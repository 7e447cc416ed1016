"""Every notebook runs from top to bottom."""

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
    # What its prose quotes.
    assert "best: 5 months; not worse: [4 5 6 7]" in text
    assert "first half: best at 3 months" in text and "second half: best at 5 months" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_from_a_noisy_delayed_oscillator_to_its_spectrum():
    # Its prose quotes figures, so it is kept with the outputs they come from.
    text = "".join(run("from_a_noisy_delayed_oscillator_to_its_spectrum.ipynb", with_outputs=True))
    assert "missed: []" in text and "false:  []" in text
