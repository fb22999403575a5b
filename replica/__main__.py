"""``python -m replica``, and the script ``replica``."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """The command line; Ctrl-C while it is still being imported ends it as later, in silence."""
    try:
        import_module("replica.cli").main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
