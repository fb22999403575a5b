"""Convex losses of y - z with kinks, and noise that is a mixture of Gaussians: the saddle point
against equations in closed form, by another quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sympy import Abs, Max, Piecewise, Rational

import replica
from replica import Quantity, Y, Z, convex_erm, normal

ALPHA, RIDGE = 2.0, 0.1
GAUSSIAN = [(1.0, 0.5)]
CONTAMINATED = [(0.9, 0.1), (0.1, 5.0)]
D = Y - Z
b = Quantity("b", "b", 0, open_low=True)


def huber(bound: Any) -> Any:
    return Piecewise((D**2 / 2, Abs(D) < bound), (bound * (Abs(D) - bound / 2), True))


# Loss, its force (omega - P)/V as a function of omega - y, where that bends.
LOSSES: dict[str, tuple[Any, Callable[[float, float], float], Callable[[float], list[float]]]] = {
    "absolute": (Abs(D), lambda u, V: np.clip(u / V, -1, 1), lambda V: [-V, V]),
    "quantile": (
        Max(Rational(3, 10) * D, -Rational(7, 10) * D),
        lambda u, V: np.clip(u / V, -0.3, 0.7),
        lambda V: [-0.3 * V, 0.7 * V],
    ),
    "epsilon": (
        Max(0, Abs(D) - Rational(1, 2)),
        lambda u, V: np.sign(u) * np.clip((abs(u) - 0.5) / V, 0, 1),
        lambda V: [-0.5 - V, -0.5, 0.5, 0.5 + V],
    ),
    "huber": (
        huber(1),
        lambda u, V: np.clip(u / (1 + V), -1, 1),
        lambda V: [-1 - V, 1 + V],
    ),
    "huber, floats": (
        huber(1.0),
        lambda u, V: np.clip(u / (1 + V), -1, 1),
        lambda V: [-1 - V, 1 + V],
    ),
    "square": (D**2 / 2, lambda u, V: u / (1 + V), lambda V: []),
}


def noise_of(parts: list[tuple[float, float]]) -> Any:
    return sum(weight * normal(Y, Z, variance) for weight, variance in parts)


QUICK = ("absolute", "gaussian"), ("epsilon", "contaminated")
NOISES = {"gaussian": GAUSSIAN, "contaminated": CONTAMINATED}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
        for case in product(LOSSES, NOISES)
    ],
)
def test_losses_of_the_difference(name: str, kind: str) -> None:
    noise = NOISES[kind]
    loss, force, bends = LOSSES[name]
    model = convex_erm(loss, teacher=noise_of(noise))
    branch = replica.solve(model, alpha=ALPHA, lam=RIDGE).branches[0]
    assert branch.ok
    m, q, V = (branch.overlaps[x] for x in ("m", "q", "V"))

    def mean(body: Callable[[float, float], float]) -> float:
        total = 0.0
        for weight, variance in noise:
            s = np.sqrt(1 + variance - 2 * m + q)
            places = [u / s for u in bends(V) if abs(u / s) < 12]
            inside = lambda g, s=s: body(g, s) * norm.pdf(g)  # noqa: E731
            total += weight * quad(inside, -12, 12, points=places or None, epsabs=1e-12)[0]
        return total

    m_hat = ALPHA * mean(lambda g, s: g * force(s * g, V) / s)
    q_hat = ALPHA * mean(lambda g, s: force(s * g, V) ** 2)
    assert m == pytest.approx(m_hat / (RIDGE + m_hat), abs=1e-8)
    assert q == pytest.approx((m_hat**2 + q_hat) / (RIDGE + m_hat) ** 2, abs=1e-8)
    assert pytest.approx(1 / (RIDGE + m_hat), abs=1e-8) == V


def test_a_bound_that_is_a_control() -> None:
    literal = replica.solve(convex_erm(huber(1), teacher=noise_of(GAUSSIAN)), alpha=2, lam=0.1)
    moved = convex_erm(huber(b.symbol), noise_of(GAUSSIAN), (b,))
    as_control = replica.solve(moved, alpha=2, lam=0.1, b=1)
    one, other = (s.branches[0] for s in (literal, as_control))
    assert one.overlaps == pytest.approx(other.overlaps, abs=1e-10)
    assert one.observables == pytest.approx(other.observables, abs=1e-9)


@pytest.mark.parametrize(
    "teacher",
    [
        Rational(9, 10) * normal(Y, Z, 1) + Rational(2, 10) * normal(Y, Z, 5),
        normal(Y, 2 * Z, 1),
        normal(Y, Z**2, 1),
    ],
    ids=["weights", "gain", "square"],
)
def test_what_is_no_noise_is_refused(teacher: Any) -> None:
    with pytest.raises(ValueError, match="cannot average over the teacher"):
        convex_erm(D**2 / 2, teacher=teacher)


def test_a_jump_that_moves_with_the_label_is_refused_beside_another_risk() -> None:
    with pytest.raises(ValueError, match="functions of y - z"):
        convex_erm(Abs(D), teacher=noise_of(GAUSSIAN), risk=Z**2)


@pytest.mark.parametrize("literal", [Rational(1, 10), 0.1, 0.3])
def test_literals_of_any_kind_are_read(literal: Any) -> None:
    solved = replica.solve(convex_erm(D**2 / 2, normal(Y, Z, literal)), alpha=2, lam=0.1)
    assert solved.branches[0].overlaps["V"] == pytest.approx(0.84428877, abs=1e-8)
    channel = replica.bayes_glm(normal(replica.X), normal(Y, 2 * Z, literal))
    found = replica.solve(channel, alpha=1.5).branches[0].overlaps["V"]
    noise = float(literal) / 4  # y/2 = z + noise
    assert found == pytest.approx(1 / (1 + 1.5 / (noise + found)), abs=1e-9)
