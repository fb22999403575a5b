"""Sphinx settings. The pages in ``_generated`` are printed by the package: one for each model, from
``replica.show``.
"""

from __future__ import annotations

from pathlib import Path

from replica import MODELS, show, versions

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "replica-solver"
author = "the replica-solver developers"
version = release = versions()["replica-solver"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx.ext.mathjax"]
html_theme = "furo"
html_title = "replica-solver"
html_css_files = ["wide.css"]
html_static_path = ["_static"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 2
nb_execution_mode = "off"  # notebooks are committed executed; the tests run them
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give types in words, with shapes and ranges
numpydoc_show_class_members = False


def _write(path: Path, content: str) -> None:
    """Only if it changed, so that a second build is quick."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        path.write_text(content, encoding="utf-8")


def _generate() -> None:
    for name in MODELS:
        _write(HERE / "_generated" / f"{name}.md", show(name, markdown=True))
    names = "\n".join(MODELS)
    _write(
        HERE / "_generated" / "models.md",
        f"# Models and their derivations\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n",
    )
    for source in (ROOT / "notebooks").glob("*.ipynb"):
        _write(HERE / "_generated" / "notebooks" / source.name, source.read_text(encoding="utf-8"))
    for title in ("CONTRIBUTING", "CHANGELOG"):
        _write(
            HERE / "_generated" / f"{title.lower()}.md",
            (ROOT / f"{title}.md").read_text(encoding="utf-8"),
        )


_generate()
