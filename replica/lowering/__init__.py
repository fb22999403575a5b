"""Symbols to arrays: every node of an expression has a rule, every function a row in a table."""

# The rules register themselves when they are imported.
from . import arithmetic, integrals, planted, tokens

__all__ = ["arithmetic", "integrals", "planted", "tokens"]
