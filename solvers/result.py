"""How a computation ended: one sentence per outcome, and the numbers that go with it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import jax


class Status(enum.Enum):
    """Outcome of a solve. The value is the sentence a user reads; ``code`` is what compiled loops
    carry.
    """

    SUCCESSFUL = "successful"
    MAX_STEPS = "the maximum number of steps was reached before the residual met the tolerance"
    NON_FINITE = "the map returned NaN or infinity"
    LEFT_DOMAIN = "the iterate left the domain of the overlaps"
    TWO_CYCLE = "the iteration oscillates between two points: use damping"
    UNRESOLVED = "an average is not resolved to the requested accuracy: use a finer rule"
    BELOW_PRECISION = (
        "the tolerance is below floating-point precision; the residual has reached its floor"
    )
    BELOW_BAYES = "the risk lies below the Bayes bound: the result is wrong"
    BOUNDARY = "the solution lies on the boundary of the domain, where derivatives do not exist"
    NOT_STABLE = (
        "the point is a fixed point but unstable: an exact symmetric point, or the ghost of a"
        " vanished branch"
    )
    INFINITE_SCALE = "the optimum lies at infinite scale; the value is its limit"
    PROX_FAILED = (
        "the proximal minimisation did not converge in some samples: see prox_failures for their"
        " share"
    )
    RS_UNSTABLE = "RS unstable: expect disagreement with simulation"
    FORMS_DIFFER = (
        "successful, but the Stein and the linear-response form of V_hat differ beyond their"
        " errors: the minimiser jumps, replica symmetry is suspect"
    )
    AT_EDGE = "the optimum lies beyond the edge of the range that was searched"

    NOT_COMPUTED = (
        "not computed yet: the run was stopped before it came here, continue it with --resume"
    )
    CRITICAL = (
        "the point is critical: dF/dx has an eigenvalue 1, so that its derivative with respect to"
        " the controls does not exist"
    )
    UNBOUNDED = (
        "critical: dF/dx has an eigenvalue so near to 1 that the error of the point is not bounded"
    )
    INFINITE_ENERGY = (
        "the point is a limit at the border of the domain: its free energy is infinite there"
    )

    @property
    def code(self) -> int:
        return _CODES[self]

    @property
    def is_point(self) -> bool:
        """Whether the equations were solved as asked: successful, a limit attained nowhere, or a
        solution with a warning about the theory itself.
        """
        return self in (
            Status.SUCCESSFUL,
            Status.INFINITE_SCALE,
            Status.RS_UNSTABLE,
            Status.FORMS_DIFFER,
            Status.INFINITE_ENERGY,
        )

    @classmethod
    def of(cls, code: int) -> Status:
        return _MEMBERS[int(code)]

    @classmethod
    def point_codes(cls) -> list[int]:
        """Codes of the statuses with ``is_point``, to be looked for in an array of codes."""
        return [status.code for status in cls if status.is_point]


_MEMBERS = tuple(Status)
_CODES = {status: i for i, status in enumerate(_MEMBERS)}
RUNNING = -1


class Iteration(NamedTuple):
    """State of an iteration.

    Attributes
    ----------
    x, fx : array, shape (n,)
        The point and its image F(x).
    residual : array, shape ()
        Undamped, max|F(x) - x|.
    steps : array, shape ()
        Evaluations of the map.
    status : array, shape ()
        Code of a ``Status``.
    """

    x: jax.Array
    fx: jax.Array
    residual: jax.Array
    steps: jax.Array
    status: jax.Array
