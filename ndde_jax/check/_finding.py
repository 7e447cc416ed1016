"""One line of a report: what was found, the number behind it, and what to do about it."""

import dataclasses

MEASURED, ESTIMATED, ASSUMED = "measured", "estimated", "assumed"
# How much a finding weighs in the verdict.
NOTE, RESERVATION, PROBLEM = "note", "reservation", "problem"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report.

    - `kind`: `"measured"` on the data, `"estimated"` through a fitted model, or `"assumed"`.
    - `name`, `value`: what, and how much (a number or a few words).
    - `theorem`: the statement of the paper it speaks to; empty where it speaks to the data alone.
    - `text`: what it means, in a sentence.
    - `remedy`: what to do about it; empty where there is nothing to do.
    - `weight`: `"note"`, `"reservation"` or `"problem"`: what it does to the verdict.
    """

    kind: str
    name: str
    value: float | str
    theorem: str
    text: str
    remedy: str = ""
    weight: str = NOTE

    @property
    def page(self) -> str:
        """Of the documentation: data that cause it, data that do not, and what to do."""
        return f"docs/problems/{self.name.replace(',', '').replace(' ', '_')}.md"


def measured(name: str, value: float, text: str, remedy: str, weight: str = RESERVATION) -> Finding:
    """A finding on the data themselves."""
    return Finding(MEASURED, name, value, "", text, remedy, weight)
