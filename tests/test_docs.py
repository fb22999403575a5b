"""The documentation says what is so: the table of benchmarks, the statuses, the figures."""

import re
import runpy
from pathlib import Path

from replica import Status

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


def test_the_table_of_the_readme_is_the_stored_one() -> None:
    assert runpy.run_path(str(ROOT / "benchmarks" / "table.py"))["stored"]() in README


def test_every_status_is_explained() -> None:
    assert not [
        status.value for status in Status if f"| {status.value} |" not in PAGES["errors.md"]
    ]


def test_every_figure_is_in_the_gallery_and_every_link_leads_somewhere() -> None:
    assert not [
        figure.name
        for figure in (ROOT / "docs").glob("*.png")
        if f"({figure.name})" not in PAGES["gallery.md"]
    ]
    links = [(README, ROOT), *((text, ROOT / "docs") for text in PAGES.values())]
    targets = [
        folder / link
        for text, folder in links
        for link in re.findall(r"\]\(([\w./]+\.(?:png|md|csv))\)", text)
    ]
    assert targets and not [target for target in targets if not target.exists()]
