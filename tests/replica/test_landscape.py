"""Which branch a local algorithm reaches."""

from __future__ import annotations

import numpy as np
import pytest

import replica
from replica import InputError, landscape
from replica.simulate import data, measure

POINT = {"L": 2, "nu": 1, "Delta": 0.1, "alpha": 0.75}
THEORY = {"uninformed": (0.5704, 0.6262), "made up": (0.0, 0.0)}
"""Cosines sqrt(q) of theory.md section 6, and a branch that does not exist."""
HARD = {"L": 4, "nu": 1, "Delta": 1e-4, "alpha": 1.5}


def test_messages_reach_their_branch_and_no_other() -> None:
    found = landscape.reached("message-passing", POINT, THEORY, sizes="100,400", trials=3)
    assert dict(found.sizes) == {"start": 2, "size": 2, "trial": 3} and bool(
        found["converged"].all()
    )
    assert set(found["branch"].sel(size=400).values.ravel()) == {"uninformed"}
    rows = landscape.counts(found, list(THEORY))
    assert len(rows) == 4 and all(
        r["uninformed"] + r["made up"] + r["none"] == 3 and r["unconverged"] == 0 for r in rows
    )
    strict = landscape.reached(
        "message-passing", POINT, {"made up": (0.0, 0.0)}, sizes="100", trials=2
    )
    assert (
        set(strict["branch"].values.ravel()) == {"none"}
        and float(strict["distance"].min()) > landscape.WITHIN
    )


def test_cosines_are_those_of_the_weights() -> None:
    """Of one fit, from its weights; trial 0 has the same data whatever the algorithm."""
    given = POINT | {"activation": "linear", "lam_k": 1, "lam_v": 1, "alpha": 3}
    found = [landscape.reached(m, given, {}, sizes="30", trials=2) for m in ("lbfgs", "newton-cg")]
    assert found[0]["cosine_v"].values == pytest.approx(found[1]["cosine_v"].values, abs=1e-4)
    assert (
        set(found[0]["branch"].values.ravel()) == {"none"} and np.isinf(found[0]["distance"]).all()
    )
    drawn = data.draw(np.random.default_rng(0), "spiked", 30, 2, 3, 1, 0.1)
    x = measure.overlaps(drawn, 2 * drawn.k_star, 3 * drawn.v_star)
    assert landscape.cosine(x["m_k"], x["q_k"]) == pytest.approx(
        np.linalg.norm(drawn.k_star) / np.sqrt(30)
    )
    assert landscape.cosine(0.0, 0.0) == 0


def test_unknown_algorithms_are_named() -> None:
    with pytest.raises(InputError, match="did you mean lbfgs"):
        landscape.reached("lbgfs", POINT, {})


@pytest.mark.slow
def test_the_hard_phase_keeps_blind_messages_from_the_informed_branch() -> None:
    theory = landscape.branches("slr-bayes", HARD)
    assert theory["informed"][1] == pytest.approx(
        np.sqrt(replica.solve("slr-bayes", **HARD).branch("informed").overlaps["q_v"])
    )
    rows = landscape.counts(
        landscape.reached("message-passing", HARD, theory, sizes="500", trials=4), list(theory)
    )
    blind, informed = rows
    # One of the blind runs is 0.17 from its branch: a fluctuation of order 1/sqrt(D).
    assert blind["informed"] == 0 and blind["uninformed"] >= 3 and informed["informed"] == 4
