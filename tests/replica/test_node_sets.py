"""Node sets as arguments: lengths in buckets, padding that changes nothing, and second sets whose
difference covers the true error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import replica
from replica import Average, LineIntegral, NodeSizes
from replica.lowering.lower import Lowered, function, value_and_error
from replica.lowering.node_sets import NodeSets, arguments, node_sets

a, x = sp.symbols("a x", real=True)
SIZES = (
    NodeSizes(),
    NodeSizes().smaller(),
    NodeSizes().refined(),
    NodeSizes(line=277, mellin=502),
    NodeSizes(gaussian=44, subinterval=81, localised=203),
)
KINDS = {
    "even": Average(sp.exp(-(a**2) * x**2), x, 0, 1),
    "smooth": Average(sp.exp(-((x - a) ** 2)), x, sp.Rational(1, 3), 2),
    "kink": Average(sp.Max(0, x - a), x, 0, 1),
    "narrow": Average(sp.tanh(30 * (x - a)) ** 2, x, 0, 1, a, sp.Rational(1, 30)),
    "two features": Average(
        sp.tanh(30 * (x - a)) ** 2 * sp.tanh(20 * (x + a)) ** 2,
        x,
        0,
        1,
        *(a, sp.Rational(1, 30), -a, sp.Rational(1, 20)),
    ),
    "line": LineIntegral(sp.exp(-(x**2) / 2) * sp.cos(a * x), x, -9 - a**2, 9),
}


def on(expr: sp.Expr, sets: NodeSets, point: float = 0.7) -> float:
    """``expr`` at a = ``point`` on node sets that are passed as arguments."""
    lowered = Lowered({"value": expr}, [], [a], "test", NodeSizes().bucket())
    return float(lowered.bind(np.zeros(0), {a: point}, sets)(None)["value"])


@pytest.mark.parametrize("sizes", SIZES)
def test_all_sets_of_a_bucket_have_its_lengths(sizes: NodeSizes) -> None:
    bucket = sizes.bucket()
    assert bucket.bucket() == bucket, "a bucket is its own"
    lengths = (bucket.gaussian, (bucket.gaussian + 1) // 2, bucket.line, bucket.localised)
    for sets in (node_sets(sizes, padded=True), node_sets(sizes.shifted(), padded=True)):
        rules = sets.gaussian, sets.even, sets.line, sets.localised
        assert tuple(len(rule.points) for rule in rules) == lengths
        assert len(sets.subinterval.points) == bucket.subinterval
        assert len(sets.legendre.points) == bucket.localised
        assert len(sets.mellin.places) == bucket.mellin
        unit = sets.gaussian, sets.even, sets.subinterval, sets.legendre
        sums = [float(rule.weights.sum()) for rule in unit]
        assert sums == pytest.approx([1.0] * len(unit), rel=1e-12)


def test_few_buckets_hold_all_usual_sizes() -> None:
    needed = [NodeSizes().at_least({"line": n, "mellin": 1.9 * n}) for n in range(100, 265, 5)]
    assert len({sizes.bucket() for sizes in needed}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_no_value(kind: str) -> None:
    expr = KINDS[kind]
    for sizes in (NodeSizes(), NodeSizes().shifted()):
        plain = float(function([a], expr, sizes)(0.7))
        assert on(expr, arguments(sizes)) == pytest.approx(plain, rel=1e-14)


def test_no_node_of_the_second_set_is_one_of_the_first() -> None:
    first, second = node_sets(NodeSizes()), node_sets(NodeSizes().shifted())
    # The trapezoids on the unit interval are laid over another range: the reach is another.
    for kind in ("gaussian", "even", "subinterval", "legendre", "mellin"):
        one, other = getattr(first, kind), getattr(second, kind)
        assert np.min(np.abs(one[0][:, None] - other[0][None, :])) > 0


@pytest.mark.parametrize("width", [0.3, 0.1, 0.03])
def test_a_narrow_step_shows_wherever_it_lies(width: float) -> None:
    """E tanh^2((x - a)/w) without saying where: the error covers the truth at every place."""
    expr = Average(sp.tanh((x - a) / width) ** 2, x, 0, 1)
    resolved = Average(expr.body, x, 0, 1, a, width)
    places = np.linspace(0.0, 1.0, 41)
    value, error = value_and_error([a], expr, [places])
    true = np.abs(np.asarray(value) - np.asarray(function([a], resolved, FINE)(places)))
    assert np.mean(true <= np.asarray(error)) >= 0.85
    assert np.all(true <= 10 * np.asarray(error).max())
    assert np.median(np.asarray(error) / np.maximum(true, 1e-13)) < 20


FINE = NodeSizes().refined().refined()
POINTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("spiked-wigner", {"snr": 1.5}),
    ("perceptron-bayes", {"alpha": 1.2}),
    ("slr-bayes", {"alpha": 1.4, "L": 4, "nu": 1, "Delta": 0.01}),
    ("slr-bayes", {"alpha": 2.0, "L": 100, "nu": 8, "Delta": 0.1}),
    ("slr-bayes", {"alpha": 1.4, "L": 4, "nu": 1, "Delta": 1e-6}),
    ("slr-population", {"activation": "erf", "L": 2, "nu": 1, "Delta": 0.1}),
    ("slr-population", {"activation": "softmax", "L": 3, "nu": 2, "Delta": 0.1}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "controls"), POINTS)
def test_reported_errors_cover_what_much_finer_sets_change(
    model: str, controls: dict[str, Any]
) -> None:
    solution = replica.solve(model, **controls)
    better = replica.solve(model, nodes=FINE, **controls)
    for here, there in zip(solution.branches, better.branches, strict=True):
        numbers = here.overlaps | here.observables | {"free_energy": here.free_energy}
        exact = there.overlaps | there.observables | {"free_energy": there.free_energy}
        for name, value in numbers.items():
            assert abs(value - exact[name]) <= here.error[name] + there.error[name], name
