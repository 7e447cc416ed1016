"""Pictures of the gallery, from the cells tagged `picture` in the notebooks, and what all their
cells print, for the site; they run for that.

`python docs/gallery/pictures.py` runs all of them; names given run those alone.
"""

import base64
import json
import sys
from pathlib import Path

import nbclient
import nbformat

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parents[1] / "notebooks"


def executed(file):
    """A notebook with outputs; those kept with them are not run again."""
    notebook = nbformat.read(file, as_version=4)
    if not any(cell.get("outputs") for cell in notebook.cells):
        nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    return notebook


def picture(notebook, name):
    """PNG of the tagged cell."""
    chosen = [cell for cell in notebook.cells if "picture" in cell.metadata.get("tags", ())]
    if len(chosen) != 1:
        raise ValueError(f"{name} must have one cell tagged picture; it has {len(chosen)}.")
    (shown,) = (o.data["image/png"] for o in chosen[0].outputs if "image/png" in o.get("data", ()))
    return base64.b64decode(shown)


def printed(notebook):
    """Text by cell, warnings left out."""
    texts = {
        cell.id: "".join(map(_text, cell.outputs)).rstrip()
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    return {name: text for name, text in texts.items() if text}


def _text(output):
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    data = output.get("data", {})
    return "" if "image/png" in data else data.get("text/plain", "")


def main(names):
    """Write both beside this file."""
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or file.stem in names:
            notebook = executed(file)
            (HERE / f"{file.stem}.png").write_bytes(picture(notebook, file.name))
            texts = json.dumps(printed(notebook), ensure_ascii=False, indent=1)
            (HERE / f"{file.stem}.json").write_text(texts + "\n", "utf-8")
            print(file.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
