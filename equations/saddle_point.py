r"""The saddle-point equations of a model, derived from its free energy.

    Phi(overlaps, conjugates) = prior(conjugates) + coupling(overlaps, conjugates) +
    channel(overlaps)

``derive`` sets dPhi = 0 and solves it for the conjugates and for the overlaps.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from .calculus.averages import Bound
from .model import Model, ModelError

Equations = dict[sp.Symbol, sp.Expr]


def derive(model: Model, rewrite: Callable[[sp.Expr], sp.Expr] | None = None) -> Equations:
    """The saddle-point equations, keyed by their left-hand side.

    Conjugates come first, as functions of the overlaps; then the overlaps, as functions of the
    conjugates. For a model without conjugates the keys are the unknowns and the values dPhi/dx (=
    0).

    Parameters
    ----------
    model : Model
        Its free energy is all that is used.
    rewrite : callable, optional
        Route of evaluation; that of its theory by default.

    Returns
    -------
    dict of symbol -> expression
        One equation for each conjugate and each overlap.

    Raises
    ------
    ModelError
        The coupling does not pair every overlap with a conjugate, or a term contains what belongs
        to the other.
    """
    rewrite = rewrite or model.theory.rewrite
    channel, prior = rewrite(model.channel), rewrite(model.prior)
    overlaps = [q.symbol for q in model.overlaps]
    if not model.conjugates:
        return {x: channel.diff(x) for x in overlaps}
    hats = [q.symbol for q in model.conjugates]
    pairing = sp.Matrix([[model.coupling.diff(h, x) for x in overlaps] for h in hats])
    _check_parts(model, pairing, overlaps, hats)
    inverse = -pairing.inv()
    forces = sp.Matrix([channel.diff(x) for x in overlaps])
    responses = sp.Matrix([prior.diff(h) for h in hats])
    return {**_assign(hats, inverse.T * forces), **_assign(overlaps, inverse * responses)}


def _assign(names: list[sp.Symbol], column: sp.Matrix) -> Equations:
    return {name: column[i, 0] for i, name in enumerate(names)}


def _check_parts(
    model: Model, pairing: sp.Matrix, overlaps: list[sp.Symbol], hats: list[sp.Symbol]
) -> None:
    unknowns = {*overlaps, *hats}
    if pairing.free_symbols & unknowns or pairing.det() == 0:
        raise ModelError(
            f"model {model.name}: the coupling must pair every overlap with a conjugate, bilinearly"
        )
    for name, part, wanted in (("prior", model.prior, hats), ("channel", model.channel, overlaps)):
        lacking = [str(s) for s in wanted if s not in part.free_symbols]
        if lacking:
            raise ModelError(
                f"model {model.name}: the {name} term does not contain {', '.join(lacking)}, so"
                " that an equation is missing"
            )
    for name, part, others in (("prior", model.prior, overlaps), ("channel", model.channel, hats)):
        stray = part.free_symbols & set(others)
        if stray:
            raise ModelError(
                f"model {model.name}: the {name} term must not contain"
                f" {', '.join(sorted(map(str, stray)))}"
            )


def jacobian(
    equations: Equations, arguments: list[sp.Symbol], values: list[sp.Symbol]
) -> sp.Matrix:
    """d values / d arguments of derived equations, by the same derivative rules (finite at v = 0).

    Parameters
    ----------
    equations : dict of symbol -> expression
        What ``derive`` returns.
    arguments, values : lists of symbols
        With respect to which, and which equations.

    Returns
    -------
    Matrix
        Shape (values, arguments).
    """
    return sp.Matrix([[equations[v].diff(a) for a in arguments] for v in values])


def integrals(expr: sp.Expr) -> set[sp.Expr]:
    """All averages and integrals in ``expr``."""
    return {e for e in sp.preorder_traversal(expr) if isinstance(e, Bound)}  # type: ignore[misc]
