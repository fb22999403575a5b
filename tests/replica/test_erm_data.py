"""slr-erm on sequences of random length and with activations written by a user."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import replica
from replica import InputError, LoweringError, Settings, Status
from replica.models import resolve
from replica.theories import theory_of
from replica.theories.trained.sample_map import SampleMap

POINT = {"activation": "linear", "nu": 1, "Delta": 0.1, "lam_k": 1, "lam_v": 1, "alpha": 3}
AT = np.array([0.2, 0.4, 0.9, 0.5, 0.4, 0.3])
MIX = {"L": "1:1/2,3:1/2"}


def ensemble(given: dict[str, Any], level: int = 8) -> SampleMap:
    model, values = resolve("slr-erm", given)
    c = np.array([values[q.name] for q in model.controls])
    return SampleMap(model, theory_of(model).data(c, level), 1, c)


def hats(given: dict[str, Any], level: int) -> np.ndarray:
    """Conjugates at ``AT``, linear in the averages over the data."""
    here = ensemble(given, level)
    minima = here.search(AT, here.unknown())
    averages, _ = here._run.image(jnp.asarray(AT), here._c, here._flat[0], minima.found[0])
    return np.asarray(here._parts.closing.conjugates(jnp.asarray(AT), averages, here._c))


@pytest.mark.parametrize("activation", ["linear", pytest.param("softmax", marks=pytest.mark.slow)])
def test_a_length_law_is_the_sum_over_its_lengths(activation: str) -> None:
    """Masked tokens change nothing: half the conjugates at L = 1 plus half those at L = 3, on the
    same samples.
    """
    given = POINT | {"activation": activation}
    mixed = hats(given | MIX, 8)
    np.testing.assert_allclose(
        mixed, (hats(given | {"L": 1}, 7) + hats(given | {"L": 3}, 7)) / 2, rtol=1e-9, atol=1e-12
    )


def test_the_max_rule_with_finite_nu_and_random_length() -> None:
    given = POINT | {"rule": "max", "nu": 2.0}
    np.testing.assert_allclose(
        hats(given | MIX, 8),
        (hats(given | {"L": 1}, 7) + hats(given | {"L": 3}, 7)) / 2,
        rtol=1e-9,
        atol=1e-12,
    )


def test_absent_tokens_do_not_respond() -> None:
    """The divergence of the force, with the affine prox, against the fixed lengths."""

    def divergence(given: dict[str, Any], level: int) -> np.ndarray:
        here = ensemble(given, level)
        minima = here.search(AT, here.unknown())
        flags = (minima.changed[0], minima.failed[0])
        response = here._parts.response(
            jnp.asarray(AT), here._c, here._flat[0], minima.found[0], flags
        )
        return np.sum(here._flat[0].weights * response.divergence, axis=1)

    mixed = divergence(POINT | MIX, 8)
    np.testing.assert_allclose(
        mixed, (divergence(POINT | {"L": 1}, 7) + divergence(POINT | {"L": 3}, 7)) / 2, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("expression", "normalised", "named"),
    [
        ("1 + chi", False, "linear"),
        pytest.param("exp(chi)", True, "softmax", marks=pytest.mark.slow),
    ],
)
def test_an_expression_is_the_named_activation_it_spells(
    expression: str, normalised: bool, named: str
) -> None:
    spelled = hats(POINT | {"L": 2, "activation": expression, "normalised": normalised}, 7)
    np.testing.assert_allclose(spelled, hats(POINT | {"L": 2, "activation": named}, 7), rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"L": "1:0.2,4:0.7"}, InputError, "sums to 0.9"),
        ({"activation": "1 + tanh(x)"}, InputError, "contains x"),
        ({"activation": "linear", "normalised": True}, InputError, "normalised goes with"),
        ({"activation": "besselj(1, chi)"}, LoweringError, "no lowering for besselj"),
        ({"nu": "1:0.5,2:0.5"}, InputError, "takes one number for nu"),
    ],
)
def test_bad_input(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replica.solve("slr-erm", **({"L": 2} | POINT | change))


@pytest.mark.slow
def test_a_minimiser_that_is_not_finite_is_named_with_its_samples() -> None:
    solution = replica.solve("slr-erm", **(POINT | {"L": 2, "activation": "log(chi)"}))
    assert solution.best is None
    for branch in solution.branches:
        assert branch.status is Status.PROX_FAILED and "of 8192 samples" in branch.message


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "population"), [("linear", 0.5), ("softmax", None)])
def test_many_samples_and_little_ridge_give_the_population_optimum(
    activation: str, population: float | None
) -> None:
    """alpha -> infinity at lam -> 0; linear, spiked: Delta + L(L-1)/(L^2 + nu(L-1)), softmax: the
    Bayes risk.
    """
    given = {"activation": activation, "L": 2, "nu": 1, "Delta": 0.1}
    limit = replica.solve("slr-population", **given).branches[0].observables["risk"]
    assert population is None or limit == pytest.approx(population, abs=1e-9)
    found = replica.solve(
        "slr-erm", settings=Settings(accuracy=2e-2), alpha=1e3, lam_k=1e-2, lam_v=1e-2, **given
    )
    assert found.best is not None
    best = found.branches[found.best]
    assert (
        0 < best.observables["risk"] - limit < 5e-3
        and 0 < limit - best.observables["training_loss"] < 5e-3
    )
