"""The first sheet of an Excel workbook (.xlsx), which is a zip archive of XML; needs no package."""

import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

# Number formats that Excel itself calls dates and times.
DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
_SHEET = "xl/worksheets/sheet1.xml"
_REFERENCE = re.compile(r"([A-Z]+)\d+")
_NAMESPACE = re.compile(r"^\{[^}]*\}")
# Larger than any sheet of measurements, unpacked.
LARGEST = 2**30


def sheet_rows(path: Path) -> list[list[Any]]:
    """Cells of the first sheet: text, numbers, `datetime64`, or None where empty.

    **Raises:** `ValueError` for what is no workbook, or a damaged one.
    """
    remedy = "Export the spreadsheet as CSV (.csv)."
    try:
        with zipfile.ZipFile(path) as book:
            names = set(book.namelist())
            sheet = _SHEET if _SHEET in names else min(
                (n for n in names if n.startswith("xl/worksheets/") and n.endswith(".xml")),
                default=None,
            )  # fmt: skip
            if sheet is None:
                raise ValueError(f"{path.name} is no Excel workbook: it holds no sheet. {remedy}")
            if book.getinfo(sheet).file_size > LARGEST:
                raise ValueError(f"{path.name} holds more than a gigabyte in a sheet. {remedy}")
            parts = {
                name: _tree(book.read(name)) if name in names else None
                for name in (sheet, "xl/sharedStrings.xml", "xl/styles.xml", "xl/workbook.xml")
            }
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, OSError) as error:
        raise ValueError(f"{path.name} is no Excel workbook ({error}). {remedy}") from error
    texts = _texts(parts["xl/sharedStrings.xml"])
    dates = _date_styles(parts["xl/styles.xml"])
    from_1904 = any(
        node.get("date1904") in ("1", "true")
        for node in _all(parts["xl/workbook.xml"], "workbookPr")
    )
    rows = []
    try:
        for row in _all(parts[sheet], "row"):
            cells: list[Any] = []
            for cell in _all(row, "c"):
                place = _REFERENCE.match(cell.get("r") or "")
                column = _number(place[1]) if place else len(cells)
                cells += [None] * (column - len(cells) + 1)
                cells[column] = _value(cell, texts, dates, from_1904)
            rows.append(cells)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path.name} is a damaged Excel workbook ({error}). {remedy}") from error
    while rows and not any(cell is not None for cell in rows[-1]):
        rows.pop()
    width = max(map(len, rows), default=0)
    return [row + [None] * (width - len(row)) for row in rows]


def _tree(content: bytes) -> ElementTree.Element:
    if b"<!DOCTYPE" in content[:2000] or b"<!ENTITY" in content:
        raise KeyError("it defines entities, which no spreadsheet does")
    return ElementTree.fromstring(content)


def _all(node: ElementTree.Element | None, name: str) -> list[ElementTree.Element]:
    """Descendants by their name, whatever the namespace."""
    if node is None:
        return []
    return [child for child in node.iter() if _NAMESPACE.sub("", child.tag) == name]


def _texts(node: ElementTree.Element | None) -> list[str]:
    return ["".join(part.text or "" for part in _all(item, "t")) for item in _all(node, "si")]


def _date_styles(node: ElementTree.Element | None) -> set[int]:
    """Positions of the cell styles that show a number as a date."""
    custom = set()
    for fmt in _all(node, "numFmt"):
        code = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", fmt.get("formatCode") or "").lower()
        if re.search(r"[ydhs]", code) and "general" not in code:
            custom.add(int(fmt.get("numFmtId") or 0))
    styles = [style for group in _all(node, "cellXfs") for style in _all(group, "xf")]
    kinds = [int(style.get("numFmtId") or 0) for style in styles]
    return {place for place, kind in enumerate(kinds) if kind in DATES or kind in custom}


def _number(letters: str) -> int:
    """The place of column A, B, …, AA, from 0."""
    place = 0
    for letter in letters:
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1


def _value(cell: ElementTree.Element, texts: list[str], dates: set[int], from_1904: bool) -> Any:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(part.text or "" for part in _all(cell, "t"))
    content = next((node.text for node in _all(cell, "v")), None)
    if content is None:
        return None
    if kind == "s":
        return texts[int(content)]
    if kind in ("str", "d"):
        return content
    if kind == "e":
        return None  # an error of a formula is a missing value
    number = float(content)
    if kind == "n" and int(cell.get("s") or 0) in dates:
        # Excel believes that 1900 was a leap year, so its days count from the 30th of December.
        start = np.datetime64("1904-01-01" if from_1904 else "1899-12-30", "s")
        return start + np.timedelta64(round(number * 86400), "s")
    return number
