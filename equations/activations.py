"""Attention activations sigma(chi)_l (theory.md section 2).

normalised:   sigma_l = phi(c chi_l) / sum_l' phi(c chi_l')
elementwise:  sigma_l = phi(b + c chi_l)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from .stable import Logistic, Softplus


@dataclass(frozen=True)
class Activation:
    """phi as a function of its argument, and which of scale c and offset b are free."""

    name: str
    phi: Callable[[sp.Expr], sp.Expr]
    normalised: bool
    scale: bool = True
    offset: bool = False


ACTIVATIONS = {
    a.name: a
    for a in (
        Activation("softmax", sp.exp, normalised=True),
        Activation("softplus", Softplus, normalised=True),
        Activation("linear", lambda x: 1 + x, normalised=False),
        Activation("linear_pure", lambda x: x, normalised=False, scale=False),
        Activation("erf", lambda x: 1 + sp.erf(x), normalised=False, offset=True),
        Activation("erf_b0", lambda x: 1 + sp.erf(x), normalised=False),
        Activation("erf_odd", sp.erf, normalised=False, offset=True),
        Activation("sigmoid", Logistic, normalised=False, offset=True),
        Activation("softplus_elementwise", Softplus, normalised=False, offset=True),
    )
}
