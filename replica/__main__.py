"""``python -m replica``."""

from .cli import main

main()
