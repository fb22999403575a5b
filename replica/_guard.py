"""A clear error when a file of the user's hides one of the two packages that lie
beside this one.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

SIBLINGS = ("equations", "solvers")


def _found(name: str) -> Path | None:
    """The file Python takes for ``name`` (already imported or not), without importing it."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None) if module else find_spec(name)
    file = getattr(module, "__file__", None) or (spec.origin if spec else None)
    return Path(file).resolve() if file else None


def check_siblings() -> None:
    """Raise one ImportError if Python finds ``equations`` or ``solvers`` anywhere else than beside
    ``replica``.
    """
    home = Path(__file__).resolve().parent.parent
    files = {name: _found(name) for name in SIBLINGS}
    hiding = [
        f"{file or 'nothing'} is found as '{name}'"
        for name, file in files.items()
        if file is None or file.parent != home / name
    ]
    if hiding:
        raise ImportError(
            f"{' and '.join(hiding)}, which hides the package of that name that replica needs from"
            f" {home}: rename the file or folder, or start Python with -P (python -P ...)."
        )
