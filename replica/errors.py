"""Errors a user can cause. Each message is one sentence that says what to do; the CLI exits with
code 2.
"""


class ReplicaError(Exception):
    """Base of all errors this package raises on purpose."""


class InputError(ReplicaError, ValueError):
    """A setting is unknown, missing or out of range."""


class LoweringError(ReplicaError):
    """An expression contains a node that has no row in the table of ``replica.lower``."""


class StoreError(ReplicaError):
    """A file cannot be read or written as asked."""


class SolveError(ReplicaError):
    """A solve failed and the caller asked to be told by an exception (``throw=True``)."""
