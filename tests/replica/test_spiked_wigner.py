"""spiked-wigner: the tiny model that keeps the spine honest."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import replica
from replica import InputError, Status


@pytest.mark.parametrize(("snr", "q"), [(2, 0.6184475093), (4, 0.9165110110)])
def test_reference_overlaps(snr: float, q: float) -> None:
    solution = replica.solve("spiked-wigner", snr=snr)
    assert len(solution.branches) == 1
    assert solution.branches[0].overlaps["q"] == pytest.approx(
        q, abs=1e-9 + solution.branches[0].error["q"]
    )


@pytest.mark.parametrize("snr", [1.3, 3.0])
def test_against_scalar_quadrature(snr: float) -> None:
    def gap(q: float) -> float:
        def integrand(z: float) -> float:
            return float(
                np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * np.tanh(snr * q + np.sqrt(snr * q) * z)
            )

        return quad(integrand, -10, 10, epsabs=1e-13)[0] - q

    assert replica.solve("spiked-wigner", snr=snr).branch("informed").overlaps[
        "q"
    ] == pytest.approx(brentq(gap, 1e-3, 1, xtol=1e-13), abs=1e-9)


# From E tanh(h) = q, h ~ N(snr q, snr q), in 40 digits (mpmath).
BESIDE_CRITICAL = {
    1 + 1e-2: 0.009965920457010656,
    1 + 1e-3: 0.0009996658921572327,
    1 + 1e-4: 9.99966658892059e-05,
    1 + 1e-5: 9.999966665954433e-06,
    1 + 1e-6: 9.999996665836222e-07,
    1 + 1e-7: 9.99999967250526e-08,
    1 - 1e-3: 0.0,
    0.99999996898552: 0.0,
    1 - 1e-8: 0.0,
    1.0: 0.0,
}


@pytest.mark.parametrize("snr", BESIDE_CRITICAL)
def test_errors_beside_a_critical_point_are_true(snr: float) -> None:
    """The overlap, its conjugate and the free entropy, or a status that says that none is known."""
    for branch in replica.solve("spiked-wigner", snr=snr).branches:
        q, error = branch.overlaps["q"], branch.error
        assert abs(q - BESIDE_CRITICAL[snr]) <= error["q"]
        assert abs(branch.conjugates["q_hat"] - snr * BESIDE_CRITICAL[snr]) <= error["q_hat"]
        assert branch.status is (Status.SUCCESSFUL if error["q"] < np.inf else Status.UNBOUNDED)
        assert branch.ok or abs(snr - 1) < 1e-7
        assert snr < 1.000001 or error["q"] < 0.01 * q


def test_onset_by_linear_response() -> None:
    assert replica.onset("spiked-wigner", "snr", (0.5, 2.0)) == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(InputError, match="does not cross"):
        replica.onset("spiked-wigner", "snr", (0.2, 0.8))
    with pytest.raises(InputError, match="not a fixed point"):
        replica.onset("spiked-wigner", "snr", (0.5, 2.0), at={"q": 0.5})


def test_exact_symmetric_point_is_not_a_solution_above_the_onset() -> None:
    starts = {"symmetric": {"q": 0.0}}
    assert (
        replica.solve("spiked-wigner", starts=starts, snr=2).branches[0].status is Status.NOT_STABLE
    )
    assert (
        replica.solve("spiked-wigner", starts=starts, snr=0.5).branches[0].status
        is Status.SUCCESSFUL
    )


def test_below_the_onset_there_is_only_zero() -> None:
    solution = replica.solve("spiked-wigner", snr=0.5)
    assert len(solution.branches) == 1
    assert solution.branches[0].overlaps["q"] == pytest.approx(0, abs=1e-8)


def test_slope_matches_finite_differences() -> None:
    at, step = 0.4, 1e-6
    slope = replica.evaluate("spiked-wigner", {"q": at}, snr=2)["spectral_radius"]
    ends = [
        replica.evaluate("spiked-wigner", {"q": at + s * step}, snr=2)["update"]["q"]
        for s in (1, -1)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7)
