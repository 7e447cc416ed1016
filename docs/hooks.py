"""Pages of the site that live elsewhere: READMEs of benchmarks, notebooks, files at the root."""

import json
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# Where on the site a file of the repository is a page; those in docs/ are there anyway.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/index.md",
    **{
        f"benchmarks/{name}/README.md": f"benchmarks/{name}.md"
        for name in "causal_dynamics delays dirty dysts rivers speed verdict world".split()
    },
}
NOTEBOOKS = {
    f"notebooks/{file.name}": f"notebooks/{file.stem}.md"
    for file in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
PICTURE = re.compile(r"!\[([^\]\n]+)\]\((gallery/\w+\.png)\)")
# Words, or a picture, which lead somewhere.
LINK = re.compile(r"(!?)\[(!\[[^\]]*\]\([^)\s]+\)|[^\]]*)\]\(([^)\s]+)\)")
# Code, in which what looks like a link is none.
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
# A section of the navigation that is a page too: its name is in the link before, not in the label.
LABEL = re.compile(r'<label(?=[^>]* id="__nav_\w+_label"[^>]*>\s*<span class="md-nav__icon)')


def on_files(files, config):
    """Add the pages, their links turned to where things are on the site."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, page, content=with_site_links(text, source, page)))
    gallery = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    shown = {address: words for words, address in PICTURE.findall(gallery)}
    for source, page in NOTEBOOKS.items():
        cells, name = json.loads((ROOT / source).read_text("utf-8")), Path(source).stem
        text = as_markdown(cells, name, shown[f"gallery/{name}.png"])
        files.append(File.generated(config, page, content=with_site_links(text, source, page)))
    return files


def on_page_markdown(markdown, page, config, files):
    """The text of a page in docs/; its links to files elsewhere lead to the pages made of them."""
    source = f"docs/{page.file.src_uri}"
    written = (ROOT / source).exists()
    return with_site_links(markdown, source, page.file.src_uri) if written else markdown


def on_post_page(output, page, config):
    """Names for what the theme leaves without one, so that it can be read aloud."""

    def named(label):
        before = output[output.rindex("md-ellipsis", 0, label.start()) : label.start()]
        return f'<label aria-label="{re.search(">([^<]*)<", before)[1].strip()}"'

    output = LABEL.sub(named, output)
    return output.replace('class="md-search"', 'class="md-search" aria-label="Search"')


def as_markdown(notebook: dict, name: str, shown: str) -> str:
    """A notebook to read: its words, its programs, what they print, and its picture, of which the
    gallery says what it shows.
    """
    printed = ROOT / "docs" / "gallery" / f"{name}.json"
    texts = json.loads(printed.read_text("utf-8")) if printed.exists() else {}
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).rstrip()
        if cell["cell_type"] == "code":
            parts.append(f"```python\n{text}\n```")
            parts += [f"```text\n{texts[cell['id']]}\n```"] if cell["id"] in texts else []
        else:
            parts.append(FORMULA.sub(with_mathml, text))
        if "picture" in cell["metadata"].get("tags", ()):
            parts.append(f"![{shown}](../docs/gallery/{name}.png)")
    return "\n\n".join(part for part in parts if part) + "\n"


def with_mathml(match: re.Match) -> str:
    """A formula that browsers set without a script; a wide one scrolls by itself."""
    if match[2]:
        return convert(match[2])
    return f'<div class="formula" tabindex="0">{convert(match[1], display="block")}</div>'


def with_site_links(text: str, source: str, page: str) -> str:
    """Links to pages lead to pages; of those to files that the site has not, the text stays."""
    pages = PAGES | NOTEBOOKS

    def turned(match: re.Match) -> str:
        mark, label, address = match.groups()
        label = LINK.sub(turned, label)
        if re.match(r"[a-z]+:|#", address):
            return match[0]
        path, _, anchor = address.partition("#")
        target = (ROOT / source).parent.joinpath(path).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            raise ValueError(f"{source} links to {address}, which does not exist.")
        within = target.relative_to(ROOT)
        if within.parts[0] == "docs":
            found = Path(*within.parts[1:]).as_posix()
        elif within.as_posix() in pages:
            found = pages[within.as_posix()]
        else:
            return label
        up = "../" * page.count("/")
        return f"{mark}[{label}]({up}{found}{'#' + anchor if anchor else ''})"

    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(turned, part) for part in parts)
