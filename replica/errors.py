"""Errors a user can cause. Each message is one sentence that says what to do; the CLI exits with
code 2.
"""


def readable(text: str) -> str:
    """The same with what a terminal would obey (control characters, marks of direction, half
    characters) written out: a text may come from a file of somebody else's.
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


class ReplicaError(Exception):
    """Base of all errors this package raises on purpose."""

    def __init__(self, message: object = "") -> None:
        super().__init__(readable(str(message)))


class ReplicaWarning(UserWarning):
    """What the user should know, though the work goes on."""

    def __init__(self, message: object = "") -> None:
        super().__init__(readable(str(message)))


class InputError(ReplicaError, ValueError):
    """A setting is unknown, missing or out of range."""


class LoweringError(ReplicaError):
    """An expression contains a node that has no row in the table of ``replica.lower``."""


class StoreError(ReplicaError):
    """A file cannot be read or written as asked."""

    def __init__(self, message: object = "") -> None:
        # A line break in it is one of a file: it must not look like another message.
        super().__init__(str(message).replace("\n", "\\n"))


class SolveError(ReplicaError):
    """A solve failed and the caller asked to be told by an exception (``throw=True``)."""
