r"""The Moreau envelope of a loss of one variable, unevaluated, with the envelope theorem as its
derivative rule.

    M(omega, V) = min_z (z - omega)^2/(2V) + l(z),   P = the minimiser, f = (P - omega)/V
    dM/dt = - f domega/dt - (f^2/2) dV/dt + (dl/dt)(P)
    dP/dt = P' (domega/dt - l'(P) dV/dt - V (dl'/dt)(P)),
    P' = 1/(1 + V l''(P)), or 0 where P sits on a jump of l'

l is convex in z, so that the minimiser is unique; a free energy with an envelope under an average
then differentiates to its saddle-point equations. Where l' or l'' jumps, the nodes know at which
omega the minimiser arrives there, so that averages are cut at these points.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from .averages import Bound, latex_power
from .discontinuities import all_breakpoints, one_sided


def slope_of(loss: sp.Expr, z: sp.Symbol) -> sp.Expr:
    """l'(z)."""
    return loss.diff(z)


def curvature_of(loss: sp.Expr, z: sp.Symbol) -> sp.Expr:
    """l''(z) between the jumps of l'."""
    return _between_jumps(loss.diff(z, 2))


def _between_jumps(derivative: sp.Expr) -> sp.Expr:
    return derivative.replace(lambda e: isinstance(e, sp.DiracDelta), lambda e: sp.S.Zero)


class ProxValue(Bound):
    """``body``, an expression in z, at the minimiser: ``ProxValue(body, z, loss, omega, V)``.

    Its derivative holds where the body does not jump at the minimiser.
    """

    @property
    def loss(self) -> sp.Expr:
        return self.parameters[0]

    @property
    def centre(self) -> sp.Expr:
        return self.parameters[1]

    @property
    def width(self) -> sp.Expr:
        return self.parameters[2]

    @property
    def problem(self) -> tuple[sp.Basic, ...]:
        """(z, loss, omega, V)."""
        return self.args[1:]

    @property
    def minimiser(self) -> Any:
        return ProxValue(self.variable, *self.problem)

    @property
    def free_symbols(self) -> set[sp.Basic]:
        inside = (self.body.free_symbols | self.loss.free_symbols) - {self.variable}
        return inside | self.centre.free_symbols | self.width.free_symbols

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> Any:
        if self.variable in old.free_symbols | new.free_symbols:
            fresh = sp.Dummy(self.variable.name, real=True)
            body, loss = (e.xreplace({self.variable: fresh}) for e in (self.body, self.loss))
            return self.func(
                body.subs(old, new),
                fresh,
                loss.subs(old, new),
                self.centre.subs(old, new),
                self.width.subs(old, new),
            )
        return None

    def breakpoints(self) -> list[sp.Expr]:
        """What vanishes where the minimiser arrives at, or leaves, a place where l' or
        l'' jumps.
        """
        z, slope = self.variable, slope_of(self.loss, self.variable)
        ends = [
            (k, one_sided(slope, z, k, side))
            for k in all_breakpoints(self.loss, z)
            for side in (-1, 1)
        ]
        return list(dict.fromkeys(sp.expand(self.centre - k - self.width * s) for k, s in ends))

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t not in self.free_symbols:
            return sp.S.Zero
        body = _between_jumps(self.body.diff(self.variable))
        moved = ProxValue(body, *self.problem) * self.drift(t) if body != 0 else sp.S.Zero
        return ProxValue(_between_jumps(self.body.diff(t)), *self.problem) + moved

    def drift(self, t: sp.Symbol) -> sp.Expr:
        """dP/dt."""
        slope = slope_of(self.loss, self.variable)
        pull = self.centre.diff(t) - self.width.diff(t) * ProxValue(slope, *self.problem)
        return ProxSlope(*self.problem) * (
            pull - self.width * ProxValue(_between_jumps(slope.diff(t)), *self.problem)
        )

    def _sympystr(self, printer: Any) -> str:
        if self.body == self.variable:
            return (
                f"prox({printer._print(self.centre)}, {printer._print(self.width)};"
                f" {printer._print(self.loss)})"
            )
        return (
            f"[{printer._print(self.body)} at {self.variable} = {printer._print(self.minimiser)}]"
        )

    def _latex(self, printer: Any, exp: Any = None) -> str:
        place = rf"{printer._print(self.variable)}=\mathrm{{prox}}"
        text = rf"\left[{printer._print(self.body)}\right]_{{{place}}}"
        return text if exp is None else rf"{text}^{{{exp}}}"


class ProxSlope(ProxValue):
    """dP/domega = 1/(1 + V l''(P)), 0 where P sits on a jump of l': ``ProxSlope(z, loss, omega,
    V)``.
    """

    def __new__(cls, variable: sp.Symbol, loss: Any, centre: Any, width: Any, *rest: Any) -> Any:
        if rest:  # (body, z, loss, omega, V), as SymPy rebuilds it
            variable, loss, centre, width = loss, centre, width, rest[0]
        body = 1 / (1 + sp.sympify(width) * curvature_of(sp.sympify(loss), variable))
        return sp.Expr.__new__(cls, body, variable, *map(sp.sympify, (loss, centre, width)))

    def _sympystr(self, printer: Any) -> str:
        return (
            f"prox'({printer._print(self.centre)}, {printer._print(self.width)};"
            f" {printer._print(self.loss)})"
        )

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return latex_power(r"\mathrm{prox}'", exp)


class ScalarEnvelope(ProxValue):
    """M(omega, V) = min_z (z - omega)^2/(2V) + l(z): ``ScalarEnvelope(z, loss, omega, V)``."""

    def __new__(cls, variable: sp.Symbol, loss: Any, centre: Any, width: Any, *rest: Any) -> Any:
        if rest:
            variable, loss, centre, width = loss, centre, width, rest[0]
        loss, centre, width = map(sp.sympify, (loss, centre, width))
        return sp.Expr.__new__(
            cls, (variable - centre) ** 2 / (2 * width) + loss, variable, loss, centre, width
        )

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t not in self.free_symbols:
            return sp.S.Zero
        force = (self.minimiser - self.centre) / self.width
        explicit = ProxValue(self.loss.diff(t), *self.problem)
        return explicit - force * self.centre.diff(t) - force**2 / 2 * self.width.diff(t)

    def _sympystr(self, printer: Any) -> str:
        return f"min_{self.variable} [{printer._print(self.body)}]"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return latex_power(
            rf"\min_{{{printer._print(self.variable)}}}\left[{printer._print(self.body)}\right]",
            exp,
        )
