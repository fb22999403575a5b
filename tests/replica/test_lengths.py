"""Random lengths in slr-bayes and slr-population: exact sums over the law (slr-erm:
test_erm_data).
"""

from __future__ import annotations

import pytest

import replica
from replica import InputError

MIX = "1:1/2,3:1/2"


def excess(**given: object) -> float:
    (branch,) = replica.solve("slr-population", Delta=0, **given).branches
    assert branch.ok
    return branch.observables["excess_risk"]


@pytest.mark.slow
def test_random_length_hurts_linear_attention_in_the_max_rule() -> None:
    """[SLR]: 0.3408 at L = 2, 0.3895 at L uniform on 1, 2, 3, though E[L] is the same; softmax
    stays at the Bayes risk, 0.
    """
    assert excess(activation="linear", rule="max", nu="inf", L=2) == pytest.approx(
        0.3408451, abs=1e-7
    )
    assert excess(
        activation="linear", rule="max", nu="inf", L="1:1/3,2:1/3,3:1/3"
    ) == pytest.approx(0.3894757, abs=1e-7)
    assert excess(
        activation="softmax", rule="max", nu="inf", L="1:1/3,2:1/3,3:1/3"
    ) == pytest.approx(0, abs=1e-9)


def test_elementwise_activations_see_only_the_mean_length_of_spiked_data() -> None:
    """R - Delta = L(L-1)/(L^2 + nu(L-1)) at L = 2 is 2/5 at nu = 1."""
    assert excess(activation="linear", nu=1, L=MIX) == pytest.approx(0.4, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["erf", "sigmoid"])
def test_so_do_those_with_an_offset(activation: str) -> None:
    assert excess(activation=activation, nu=1, L=MIX) == pytest.approx(
        excess(activation=activation, nu=1, L=2), abs=1e-8
    )


@pytest.mark.slow
def test_softmax_stays_at_the_bayes_risk_of_the_mixture() -> None:
    mixed = (
        replica.solve("slr-population", activation="softmax", nu=1, L=MIX, Delta=0)
        .branches[0]
        .observables
    )
    alone = excess(activation="bayes", nu=1, L=3)
    assert mixed["risk"] == pytest.approx(mixed["population_bayes_risk"], abs=1e-8)
    assert mixed["population_bayes_risk"] == pytest.approx(
        alone / 2, abs=1e-8
    )  # one token: nothing to find


@pytest.mark.slow
def test_the_channel_of_slr_bayes_is_the_sum_over_the_law() -> None:
    """Conjugates and observables at fixed overlaps are linear in the averages over the data."""
    at, given = {"q_k": 0.3, "q_v": 0.6}, {"alpha": 1.4, "nu": 1, "Delta": 0.01}
    two, nine = (replica.evaluate("slr-bayes", at, L=length, **given) for length in (2, 9))
    mixed = replica.evaluate("slr-bayes", at, L="2:1/4,9:3/4", **given)
    for kind, name in (
        ("conjugates", "q_k_hat"),
        ("conjugates", "q_v_hat"),
        ("observables", "risk"),
        ("observables", "population_bayes_risk"),
    ):
        assert mixed[kind][name] == pytest.approx(
            two[kind][name] / 4 + 3 * nine[kind][name] / 4, abs=1e-9
        )


def test_where_a_law_is_refused() -> None:
    with pytest.raises(InputError, match="takes one number for L"):
        replica.solve("subspace", theta=1, r=0.1, d=10, L=MIX)
    with pytest.raises(InputError, match="no sampled route"):
        replica.solve(
            "slr-bayes", alpha=1, L=MIX, nu=1, Delta=0.1, settings=replica.Settings(route="sampled")
        )
