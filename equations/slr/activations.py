"""Attention activations sigma(chi)_l (theory.md section 2).

A name of the table, or an expression in chi:

normalised:   sigma_l = phi(c chi_l) / sum_l' phi(c chi_l')
elementwise:  sigma_l = phi(b + c chi_l)

``relu`` is elementwise: normalised, it is 0/0 where every chi_l is negative, and a trained one
could not be defined there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from ..calculus.special_functions import Logistic, Softplus
from ..expression import read
from ..numerals import shown


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
        Activation("relu", lambda x: sp.Max(x, 0), normalised=False, scale=False, offset=True),
        Activation("softplus_elementwise", Softplus, normalised=False, offset=True),
    )
}


CHI = sp.Symbol("chi", real=True)
"""What an expression is a function of; ``expression`` says what it may contain."""


def expression_option(value: Any) -> str | None:
    """The canonical text of an activation given as an expression in chi; None for a name.

    Raises
    ------
    ValueError
        It cannot be read, or contains anything but chi.
    """
    text = str(value).strip()
    if text.isidentifier() and text != "chi":
        return None
    canonical = str(read_expression(text))
    read_expression(canonical)  # a model is built from it, also on another machine
    return canonical


def read_expression(text: str) -> sp.Expr:
    """phi(chi) from text, which is never executed.

    Raises
    ------
    ValueError
        As ``expression_option``.
    """
    expr = read(text, CHI, "the activation")
    if not expr.has(CHI):
        raise ValueError(f"the activation {shown(text)} does not depend on chi")
    return expr


def activation_of(text: str, normalised: bool) -> Activation:
    """The activation of a name, or of an expression in chi."""
    if text in ACTIVATIONS:
        if normalised:
            raise ValueError(
                f"the activation {text} is what it is: normalised goes with an expression in chi,"
                " such as exp(chi)"
            )
        return ACTIVATIONS[text]
    expr = read_expression(text)
    return Activation(text, lambda x: expr.subs(CHI, x), normalised=normalised, offset=True)
