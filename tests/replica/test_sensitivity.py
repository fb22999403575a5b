"""Derivatives through the fixed point, against finite differences of whole solves and
closed forms.
"""

import math

import pytest
import sympy as sp

import replica
from equations import Model, Quantity
from equations.calculus.special_functions import LogCosh
from solvers import Status

BETA, M = Quantity("beta", r"\beta", 0), Quantity("m", "m", -1, 1)
HAT = Quantity("m_hat", r"\hat m")


@pytest.fixture(scope="module")
def magnet() -> Model:
    """m = tanh(beta m)."""
    return Model(
        name="magnet",
        title="",
        setting="",
        overlaps=(M,),
        conjugates=(HAT,),
        controls=(BETA,),
        coupling=-M.symbol * HAT.symbol,
        prior=LogCosh(HAT.symbol),
        channel=BETA.symbol * M.symbol**2 / 2,
        observables={"square": BETA.symbol * M.symbol**2},
        starts={"informed": {"m": 1.0}, "zero": {"m": 0.0}},
        sources=("Curie and Weiss",),
    )


def test_magnet(magnet: Model) -> None:
    solution = replica.solve(magnet, beta=1.5)
    found = replica.sensitivity(solution, "informed")
    m = solution.branch("informed").overlaps["m"]
    assert found.status is Status.SUCCESSFUL
    assert found.values["beta"]["m"] == pytest.approx(0.37262509310, abs=1e-9)
    assert found.values["beta"]["m_hat"] == pytest.approx(m + 1.5 * 0.37262509310, abs=1e-9)
    assert found.values["beta"]["square"] == pytest.approx(m**2 + 3 * m * 0.37262509310, abs=1e-9)
    assert 0 < found.error["beta"]["m"] < 1e-9


def test_the_error_covers_that_of_the_point() -> None:
    """Reference: differences of two solutions of q = E tanh(s q + sqrt(s q) z) to 40 digits."""
    solution = replica.solve("spiked-wigner", snr=2)
    found = replica.sensitivity(solution)
    wrong = abs(found.values["snr"]["q"] - 0.33592758087213618)
    assert wrong <= found.error["snr"]["q"] < 1e-8
    assert solution.branches[0].error["q"] < 1e-9


def test_a_critical_point_has_no_derivative(magnet: Model) -> None:
    solution = replica.solve(magnet, beta=1.0, starts={"zero": {"m": 0.0}})
    found = replica.sensitivity(solution, "zero")
    assert found.status is Status.CRITICAL
    assert math.isnan(found.values["beta"]["m"])


@pytest.mark.slow
def test_perceptron_against_differences() -> None:
    """V solves V = F(V; alpha); a central difference of two solves, whose own error is of order
    step^2.
    """
    step, start = 1e-3, {"uninformed": {"V": 1.0}}
    low, here, high = (
        replica.solve("perceptron-bayes", alpha=1.2 + s, starts=start) for s in (-step, 0.0, step)
    )
    found = replica.sensitivity(here)
    for name in ("V", "q_hat", "risk", "mmse"):
        ends = [
            {**b.overlaps, **b.conjugates, **b.observables}[name]
            for b in (low.branches[0], high.branches[0])
        ]
        assert found.values["alpha"][name] == pytest.approx(
            (ends[1] - ends[0]) / (2 * step), rel=1e-4
        )


@pytest.mark.slow
def test_slr_bayes_against_differences() -> None:
    point = {"alpha": 1.0, "L": 4, "nu": 1.0, "Delta": 0.1}
    found = replica.sensitivity(replica.solve("slr-bayes", **point), controls=["alpha", "nu"])
    assert found.values.keys() == {"alpha", "nu"}
    for control in found.values:
        step = 1e-4 * point[control]
        ends = [
            replica.solve("slr-bayes", **point | {control: point[control] + s}).branches[0]
            for s in (-step, step)
        ]
        for name, value in found.values[control].items():
            sides = [{**b.overlaps, **b.conjugates, **b.observables}[name] for b in ends]
            assert value == pytest.approx((sides[1] - sides[0]) / (2 * step), rel=2e-5, abs=1e-7), (
                control,
                name,
            )


def test_unknown_controls_are_named(magnet: Model) -> None:
    with pytest.raises(replica.InputError, match="did you mean beta"):
        replica.sensitivity(replica.solve(magnet, beta=1.5), "informed", ["bet"])


def test_models_without_quadrature_are_refused() -> None:
    with pytest.raises(replica.InputError, match="quadrature"):
        replica.sensitivity(replica.solve("subspace", theta=3, r=0.1))


def test_the_equations_are_those_of_the_magnet(magnet: Model) -> None:
    derived = replica.equations.derive(magnet)
    assert sp.simplify(derived[M.symbol] - sp.tanh(HAT.symbol)) == 0
    assert sp.simplify(derived[HAT.symbol] - BETA.symbol * M.symbol) == 0
