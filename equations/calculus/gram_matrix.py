r"""Gradient flow of a Gram matrix: what descent on an objective of the overlaps does to the
overlaps.

    dw_a/dt = -D grad_a R(G),  a trained,     dw_b/dt = 0,  b fixed,      G_ab = w_a.w_b/D
    D grad_a R = sum_b H_ab w_b,     H_ab = (1 + delta_ab) dR/dG_ab     =>
    dG/dt = -(H G + G H^T)

R is a function of the entries of G on and above the diagonal; rows of H that belong to a fixed
vector are zero. ``solvers.flow`` turns H and G into the flow, or into a step of descent. Source:
the chain rule; theory.md section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True)
class Gram:
    """The Gram matrix of all vectors, the ``trained`` ones first."""

    matrix: sp.Matrix
    trained: int

    def forces(self, objective: sp.Expr) -> dict[tuple[int, int], sp.Expr]:
        """The rows of H that belong to trained vectors."""
        size = range(self.matrix.rows)
        return {
            (a, b): (1 + (a == b)) * objective.diff(self.matrix[a, b])
            for a in range(self.trained)
            for b in size
        }
