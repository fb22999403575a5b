"""Output terms of generalized linear models: y depends on z = x.w/sqrt(d), of which omega is known and V = 1 - q is not."""

from __future__ import annotations

import sympy as sp

from .nodes import Average
from .stable import LogNdtr, Width

OMEGA = sp.Symbol("omega", real=True)


def sign_output(variance: sp.Expr) -> sp.Expr:
    """Psi_out of y = sign(z): sum_y E[Z log Z] = 2 E[Phi(h) log Phi(h)], h = omega/sqrt(V), omega ~ N(0, 1 - V).

    With omega as variable, every term of its derivatives is as large as their sum for V -> 0 (with h as
    variable, of variance (1 - V)/V, they would cancel to a fraction V). Nodes are placed on the scale sqrt(V).
    """
    width = Width(variance)
    log_z = LogNdtr(OMEGA / sp.sqrt(width))
    return 2 * Average(sp.exp(log_z) * log_z, OMEGA, 0, 1 - variance, 0, sp.sqrt(width))
