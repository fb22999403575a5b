"""The equations that ``derive`` makes from the free energy with its Moreau envelope."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from equations import MODELS, derive
from equations.calculus.envelope import (
    AtProx,
    MoreauEnvelope,
    NotEliminable,
    ProxForce,
    TeacherAverage,
    linear_predictor,
)
from replica.theories.trained.proximal_map import proximal_map
from replica.theories.trained.sample_map import flattened
from solvers.attention.data import random_length

INDEX, COUNT = sp.Symbol("l", integer=True, positive=True), sp.Integer(1)
X = sp.IndexedBase("x")


def test_derivatives_of_an_envelope_are_the_envelope_theorem() -> None:
    omega, width, y = sp.symbols("omega V y", positive=True)
    envelope = MoreauEnvelope(
        (y - sp.Sum(X[INDEX], (INDEX, 1, 1))) ** 2 / 2, INDEX, COUNT, [(X, omega, width, "x")]
    )
    force = ProxForce(envelope, 0)
    assert envelope.diff(omega) == -sp.Sum(force, (INDEX, 1, 1))
    assert envelope.diff(width) == -sp.Sum(force**2, (INDEX, 1, 1)) / 2
    assert isinstance(envelope.diff(y), AtProx)
    assert envelope.diff(sp.Symbol("unrelated")) == 0
    with pytest.raises(TypeError, match="linear response"):
        force.diff(omega)


def test_the_loss_must_be_linear_in_the_eliminated_field() -> None:
    z = sp.IndexedBase("z")
    fields = [(X, sp.Integer(0), sp.Integer(1), "k"), (z, sp.Integer(0), sp.Integer(1), "v")]
    with pytest.raises(NotEliminable):
        linear_predictor(
            MoreauEnvelope(sp.Sum(z[INDEX] ** 4, (INDEX, 1, 2)), INDEX, sp.Integer(2), fields)
        )


def test_an_average_over_data_is_not_differentiated_with_respect_to_their_law() -> None:
    nu = sp.Symbol("nu", nonnegative=True)
    average = TeacherAverage(
        sp.Sum(X[INDEX] ** 2, (INDEX, 1, 2)),
        INDEX,
        sp.Integer(2),
        [sp.Symbol("xi")],
        [X],
        "spiked",
        nu,
    )
    with pytest.raises(TypeError, match="law of the data"):
        average.diff(nu)


def test_six_equations_and_their_conjugates() -> None:
    equations = derive(MODELS["slr-erm"].build(activation="softmax"))
    assert [str(s) for s in equations] == [
        f"{o}_{a}{h}" for h in ("_hat", "") for a in "kv" for o in "mqV"
    ]
    symbols = {str(s): s for s in equations}
    lam = sp.Symbol("lam_k", positive=True)
    assert sp.simplify(equations[symbols["V_k"]] - 1 / (lam + symbols["V_k_hat"])) == 0
    assert (
        sp.simplify(equations[symbols["m_k"]] - symbols["m_k_hat"] / (lam + symbols["V_k_hat"]))
        == 0
    )
    expected = (symbols["m_k_hat"] ** 2 + symbols["q_k_hat"]) / (lam + symbols["V_k_hat"]) ** 2
    assert sp.simplify(equations[symbols["q_k"]] - expected) == 0


@pytest.mark.parametrize(
    "activation", [pytest.param("softmax", marks=pytest.mark.slow), "linear", "erf"]
)
def test_derived_conjugates_are_the_formulas_of_theory_md(activation: str) -> None:
    """theory.md section 5, written out in NumPy on the same samples and minimisers."""
    model = MODELS["slr-erm"].build(activation=activation)
    parts, data = (
        proximal_map(model, 2),
        flattened(random_length(((2, 1.0),), "spiked", 1.0, 7, 8, seed=0)),
    )
    controls = {
        "alpha": 3.0,
        "L": 2,
        "nu": 1.0,
        "Delta": 0.1,
        "lam_k": 0.5,
        "lam_v": 0.4,
        "beta": 1.2,
        "offset": -0.2,
    }
    c = jnp.array([float(controls[q.name]) for q in model.controls])
    x = np.array([0.4, 1.1, 0.8, 0.7, 0.9, 0.6])
    found = parts.search(jnp.array(x), c, data, parts.unknown(data))[0]
    averages = parts.averages(jnp.array(x), c, data, found, parts.closing.first)
    derived = parts.closing.conjugates(jnp.array(x), averages, c)

    at = parts.channel(jnp.array(x), c, data)
    prox = parts.minimiser(at, c, found)
    typed = []
    for a, omega in enumerate((at.key, at.value)):
        m, q, width = x[3 * a : 3 * a + 3]
        teacher, xi = data.tokens[a].T, data.tokens[2 + a].T
        force = (prox[a] - omega) / width
        v_hat = -3.0 * np.mean(np.sum(xi * force, axis=0)) / np.sqrt(q - m**2)
        typed += [
            3.0 * np.mean(np.sum(teacher * force, axis=0)) + m * v_hat,
            3.0 * np.mean(np.sum(force**2, axis=0)),
            v_hat,
        ]
    np.testing.assert_allclose(derived, typed, rtol=1e-10, atol=1e-12)
