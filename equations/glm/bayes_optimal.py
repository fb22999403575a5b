r"""Bayes-optimal inference in a generalized linear model, from a prior P(x) and a channel P(y|z).

Setting
    y ~ P(y|z), z = F x, F_ij ~ N(0, 1/N), N components x_i ~ P(x), M = alpha N labels; posterior
    mean of x.
Overlaps
    V >= 0, per component: mean squared error of the posterior mean, V = E[x^2] - q (q: its overlap
    with x).
Free energy
    Psi_P(q_hat) - q q_hat/2 + alpha Psi_out(q) per component, to be maximised, with q = E[x^2] - V.
Exact?
    Nishimori. Of several branches the one with the largest free energy is the equilibrium one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Model, Observable, joined
from ..quantities import Quantity, quantity
from .channels import output_term
from .densities import Channel, components, moments
from .priors import mixture_error_term

UNKNOWN = Quantity(
    "V",
    "V",
    0,
    scaling="per component",
    meaning="mean squared error of the posterior mean, E[x^2] - q",
    logarithmic=True,
)
HAT = Quantity("q_hat", r"\hat q", meaning="conjugate of q = E[x^2] - V", scaling="per component")
V = UNKNOWN.symbol
NEARLY = 0.999
"""The uninformed start, as a share of the error without data: beside it, as there an exact symmetry
would never be left.
"""


def bayes_glm(
    prior: Any,
    channel: Channel,
    controls: tuple[Quantity, ...] = (),
    *,
    name: str = "bayes-glm",
    title: str = "Bayes-optimal generalized linear model",
    observables: Mapping[str, Any] | None = None,
    support: tuple[Any, Any] | None = None,
    sources: tuple[str, ...] = (),
    **fields: Any,
) -> Model:
    """A Bayes-optimal generalized linear model; its equations are derived from the free energy.

    Parameters
    ----------
    prior : expression in x
        A sum of weights times ``DiracDelta(x - a)`` and ``normal(x, mean, variance)``.
    channel : expression in y and z, {value: probability}, or Eq(y, f(z))
        ``normal(y, z, Delta)`` is additive Gaussian noise.
    controls : tuple of Quantity
        What prior and channel contain besides x, y, z; ``alpha`` comes by itself.
    name, title, sources
        As in ``Model``.
    observables : dict of name -> expression, optional
        In ``V`` and the controls; ``risk``, ``mmse`` (= V) and ``q`` are there unless you say
        otherwise.
    support : (low, high), optional
        Range of y for a density without closed form.
    **fields
        Further fields of ``Model``.

    Returns
    -------
    Model
        With the overlap V = E x^2 - q.

    Raises
    ------
    ModelError
        Prior or channel cannot be read, or their weights do not add up to one.
    """
    parts = components(prior)
    mean, second = moments(parts)
    alpha = next((q for q in controls if q.name == "alpha"), quantity("alpha"))
    measured = {
        "risk": Observable(V, r"\mathrm{MMSE}", role="risk"),
        "mmse": Observable(V, r"\mathrm{MMSE}"),
        "q": Observable(second - V, "q"),
    }
    blind = second - mean**2
    return Model(
        name=name,
        title=title,
        overlaps=(UNKNOWN,),
        conjugates=(HAT,),
        controls=(alpha, *(q for q in controls if q.name != "alpha")),
        prior=mixture_error_term(parts, HAT.symbol),
        coupling=V * HAT.symbol / 2,
        channel=alpha.symbol * output_term(channel, V, second, support),
        observables=joined(measured, observables or {}),
        sources=sources,
        **{
            "setting": (
                f"x_i ~ P(x) = {prior}, labels with P(y|z) = {channel}, z = F x, F_ij ~ N(0, 1/N);"
                " posterior mean of x from alpha N labels."
            ),
            "starts": {"uninformed": {"V": NEARLY * blind}, "informed": {"V": 0.0}},
            "notes": {"Exact?": "Bayes-optimal (Nishimori)"},
        }
        | fields,  # type: ignore[arg-type]
    )
