"""Pictures of the gallery, from the cells tagged `picture` in the notebooks, which run for that.

`python docs/gallery/pictures.py` runs all of them; names given run those alone.
"""

import base64
import sys
from pathlib import Path

import nbclient
import nbformat

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parents[1] / "notebooks"


def picture(file):
    """PNG of the tagged cell; notebooks kept with their outputs are not run again."""
    notebook = nbformat.read(file, as_version=4)
    chosen = [cell for cell in notebook.cells if "picture" in cell.metadata.get("tags", ())]
    if len(chosen) != 1:
        raise ValueError(f"{file.name} must have one cell tagged picture; it has {len(chosen)}.")
    if not chosen[0].outputs:
        del notebook.cells[notebook.cells.index(chosen[0]) + 1 :]  # what comes later is not shown
        nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    (shown,) = (o.data["image/png"] for o in chosen[0].outputs if "image/png" in o.get("data", ()))
    return base64.b64decode(shown)


def main(names):
    """Write them beside this file."""
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or file.stem in names:
            (HERE / f"{file.stem}.png").write_bytes(picture(file))
            print(file.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
