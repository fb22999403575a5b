"""Iteration: honest residuals, named failures, and polishing that neither jumps nor reports a
ghost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers import (
    Box,
    Iteration,
    Status,
    anderson,
    check_damping,
    everywhere,
    fixed_point,
    follow,
    newton,
)

Map = Callable[[jax.Array], jax.Array]


def status(end: Iteration) -> Status:
    return Status.of(int(end.status))


def run(
    f: Map,
    x0: float,
    *,
    tol: float = 1e-10,
    max_steps: int = 1000,
    damping: float = 0.0,
    polish: str = "none",
    box: Box | None = None,
) -> Iteration:
    """``follow`` from a scalar; "none" is plain ``fixed_point``."""
    return _follow(f, polish, jnp.array([x0]), tol, max_steps, damping, box or everywhere(1))


@partial(jax.jit, static_argnums=(0, 1))
def _follow(
    f: Map,
    polish: str,
    x0: jax.Array,
    tol: jax.Array,
    max_steps: jax.Array,
    damping: jax.Array,
    box: Box,
) -> Iteration:
    return follow(f, x0, tol=tol, max_steps=max_steps, damping=damping, box=box, polish=polish)  # type: ignore[arg-type]


def evaluations(f: Map) -> tuple[Map, list[int]]:
    """``f`` that counts how often it is really evaluated."""
    count = [0]

    def tick(_: np.ndarray) -> np.ndarray:
        count[0] += 1
        return np.zeros(())

    def counted(x: jax.Array) -> jax.Array:
        return f(x) + jax.pure_callback(tick, jax.ShapeDtypeStruct((), x.dtype), x[0])

    return counted, count


POLISHES = ["none", "anderson", "newton"]


# damping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("polish", POLISHES)
def test_convergence_is_judged_on_the_undamped_residual(polish: str) -> None:
    """f = y/2 + 1 from 1.9 at damping .99: the first damped step is 5e-4, the residual is not."""
    end = run(lambda y: y / 2 + 1, 1.9, tol=1e-3, damping=0.99, polish=polish, max_steps=5000)
    assert status(end) is Status.SUCCESSFUL
    assert abs(float((end.x / 2 + 1 - end.x)[0])) <= 1e-3
    assert end.residual == pytest.approx(abs(float((end.fx - end.x)[0])), abs=1e-16)
    if polish == "none":
        assert int(end.steps) > 100


@jax.jit
def _linear(slope: jax.Array, x0: jax.Array, tol: jax.Array, damping: jax.Array) -> Iteration:
    return fixed_point(lambda y: slope * y + 1, x0, tol=tol, damping=damping, max_steps=100_000)


@given(
    slope=st.floats(-0.95, 0.95),
    damping=st.floats(0, 0.98),
    tol=st.floats(1e-12, 1e-2),
    x0=st.floats(-10, 10),
)
def test_the_residual_is_the_residual(slope: float, damping: float, tol: float, x0: float) -> None:
    """Success means |f(y) - y| <= tol at the y returned, for every contraction,
    damping and start.
    """
    end = _linear(slope, jnp.array([x0]), tol, damping)
    assert status(end) is Status.SUCCESSFUL
    assert abs(slope * float(end.x[0]) + 1 - float(end.x[0])) <= tol * (1 + 1e-9) + 1e-15
    assert abs(float(end.x[0]) - 1 / (1 - slope)) <= tol / (1 - slope) * (1 + 1e-9) + 1e-13


def _shifted_cosine(y: jax.Array) -> jax.Array:
    return jnp.cos(y) + 2


@given(x0=st.floats(-3, 3), damping=st.floats(0, 0.99))
def test_one_step(x0: float, damping: float) -> None:
    """(1 - d) f(x0) + d x0, the old iterate with weight d."""
    end = run(_shifted_cosine, x0, damping=damping, max_steps=2, tol=1e-300)
    assert end.x[0] == pytest.approx((1 - damping) * (np.cos(x0) + 2) + damping * x0, rel=1e-14)
    assert int(end.steps) == 2


@pytest.mark.parametrize("damping", [1, 1.2, -0.1, float("nan")])
def test_damping_outside_its_range_is_refused(damping: float) -> None:
    with pytest.raises(ValueError, match="weight on the old iterate"):
        check_damping(damping)


@pytest.mark.parametrize("damping", [0, 0.5, 0.99])
def test_damping_inside_its_range_is_accepted(damping: float) -> None:
    check_damping(damping)


# named failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("polish", POLISHES)
def test_nan_is_never_converged(polish: str) -> None:
    """sqrt(y - 3) from 1 is nan at once; the step is reported."""
    end = run(lambda y: jnp.sqrt(y - 3), 1.0, polish=polish)
    assert status(end) is Status.NON_FINITE and int(end.steps) == 1
    later = run(lambda y: jnp.sqrt(y - 3), 5.0, polish=polish)
    assert status(later) is Status.NON_FINITE and 1 < int(later.steps) < 5


@pytest.mark.parametrize("polish", POLISHES)
@pytest.mark.parametrize("bad", [jnp.nan, -jnp.inf])
def test_one_bad_component_is_enough(polish: str, bad: float) -> None:
    end = follow(
        lambda y: jnp.array([0.5 * y[0], bad]),
        jnp.zeros(2),
        tol=1e-3,
        max_steps=50,
        damping=0.0,
        box=everywhere(2),
        polish=polish,
    )  # type: ignore[arg-type]
    assert status(end) is Status.NON_FINITE
    assert status(run(lambda y: y, float(bad), polish=polish)) is Status.NON_FINITE


def test_two_cycle() -> None:
    """m = tanh(-3m) from .5: a named two-cycle, slow at damping .5, a few steps at .75."""
    f = lambda m: jnp.tanh(-3 * m)  # noqa: E731
    cycle, slow, fast = (run(f, 0.5, damping=d, max_steps=2000) for d in (0.0, 0.5, 0.75))
    assert status(cycle) is Status.TWO_CYCLE and int(cycle.steps) < 200
    assert status(fast) is Status.SUCCESSFUL and int(fast.steps) < 20
    assert abs(float(fast.x[0])) < 1e-9
    assert status(slow) in (Status.MAX_STEPS, Status.TWO_CYCLE) or int(slow.steps) > 10 * int(
        fast.steps
    )
    assert "damping" in Status.TWO_CYCLE.value


def test_a_two_cycle_is_known_before_it_is_exact() -> None:
    """x = 3.3 x (1 - x): what is left falls by .29 in two steps, to 1e-9 in less than 50."""
    cycle = run(lambda x: 3.3 * x * (1 - x), 0.3, max_steps=2000)
    assert status(cycle) is Status.TWO_CYCLE and int(cycle.steps) < 50


@pytest.mark.parametrize("polish", ["anderson", "newton"])
def test_two_cycle_is_named_with_polish_too(polish: str) -> None:
    assert status(run(lambda m: jnp.tanh(-3 * m), 0.5, polish=polish)) is Status.TWO_CYCLE


def test_slow_oscillation_is_not_a_two_cycle() -> None:
    """A convergent alternating iteration returns near itself after two steps, but not there."""
    end = run(lambda y: -0.999 * y, 1.0, tol=1e-6, max_steps=100_000)
    assert status(end) is Status.SUCCESSFUL


@pytest.mark.parametrize("polish", POLISHES)
def test_start_at_the_solution(polish: str) -> None:
    end = run(lambda y: y / 2 + 1, 2.0, polish=polish)
    assert status(end) is Status.SUCCESSFUL and int(end.steps) <= 2 and float(end.x[0]) == 2


def _slow(y: jax.Array) -> jax.Array:
    return 0.999 * y + 1


@pytest.mark.parametrize("polish", POLISHES)
@pytest.mark.parametrize("budget", [1, 2, 3, 7])
def test_the_budget_is_kept_and_said(polish: str, budget: int) -> None:
    """max_steps bounds the evaluations; running out is a failure that says so."""
    end = run(_slow, 0.0, max_steps=budget, polish=polish)
    assert status(end) is Status.MAX_STEPS and int(end.steps) <= budget
    assert "maximum number of steps" in Status.MAX_STEPS.value


@pytest.mark.parametrize("polish", POLISHES)
def test_leaving_the_box(polish: str) -> None:
    unit = Box(jnp.array([0.0]), jnp.array([1.0]))
    end = run(lambda y: 1.5 * y + 0.1, 0.1, box=unit, polish=polish)
    assert status(end) is Status.LEFT_DOMAIN
    assert (
        status(run(lambda y: 0 * y + 1.0, 0.3, box=unit, polish=polish)) is Status.SUCCESSFUL
    )  # the end belongs to it


def test_steps_count_evaluations() -> None:
    for polish in POLISHES[:2]:
        f, count = evaluations(lambda y: jnp.cos(y))
        end = run(f, 0.1, polish=polish)
        jax.block_until_ready(end)
        assert int(end.steps) == count[0]


def test_every_status_has_a_code_and_a_sentence() -> None:
    assert [Status.of(s.code) for s in Status] == list(Status)
    assert len({s.value for s in Status}) == len(Status)


# acceleration -------------------------------------------------------------------------------------

MAPS: dict[str, tuple[Map, list[float]]] = {
    "cosine": (jnp.cos, [0.1]),
    "tanh": (lambda y: jnp.tanh(1.5 * y), [0.3]),
    "slow": (lambda y: 0.99 * y + 0.01 * jnp.sin(y) + 0.02, [0.0]),
    "alternating": (lambda y: -0.9 * jnp.sin(y) + 1, [0.0]),
    "pair": (lambda y: jnp.array([0.5 * jnp.tanh(y[1]) + 0.3, 0.9 * jnp.cos(y[0])]), [0.0, 0.0]),
    "rotation": (lambda y: jnp.array([0.9 * y[1] + 0.1, -0.9 * y[0] + 0.2]), [1.0, -1.0]),
    "four": (lambda y: jnp.tanh(jnp.roll(y, 1) * 0.9 + jnp.arange(4.0) / 5), [0.0] * 4),
}


@pytest.mark.parametrize("polish", ["anderson", "newton"])
@pytest.mark.parametrize("name", MAPS)
def test_polish_agrees_with_plain_iteration(name: str, polish: str) -> None:
    f, x0 = MAPS[name]
    both = [
        follow(
            f,
            jnp.array(x0),
            tol=1e-12,
            max_steps=100_000,
            damping=0.0,
            box=everywhere(len(x0)),
            polish=p,
        )
        for p in ("none", polish)
    ]  # type: ignore[arg-type]
    assert [status(end) for end in both] == [Status.SUCCESSFUL] * 2
    np.testing.assert_allclose(both[1].x, both[0].x, atol=3e-9)
    assert int(both[1].steps) <= int(both[0].steps) + 30


def near_spinodal(eps: float) -> Map:
    """x -> x - eps + (x - 1)^2 / 2, slow at its stable fixed point 1 - sqrt(2 eps) (slope 1 -
    sqrt(2 eps)).
    """
    return lambda x: x - eps + (x - 1) ** 2 / 2


@pytest.mark.parametrize("polish", ["anderson", "newton"])
def test_polish_saves_evaluations_at_a_slow_point(polish: str) -> None:
    f = near_spinodal(1e-5)
    plain, polished = run(f, 0.5, max_steps=100_000), run(f, 0.5, max_steps=100_000, polish=polish)
    assert status(plain) is status(polished) is Status.SUCCESSFUL
    assert int(plain.steps) > 1000 and int(polished.steps) < int(plain.steps) / 5
    assert float(polished.x[0]) == pytest.approx(1 - np.sqrt(2e-5), abs=1e-7)


@pytest.mark.parametrize("polish", POLISHES)
@pytest.mark.parametrize("gap", [1e-4, 1e-6])
def test_a_ghost_is_never_reported(polish: str, gap: float) -> None:
    """x + (x - 1)^2/2 + gap has no fixed point; near 1 it almost has one."""
    end = run(
        lambda x: x + (x - 1) ** 2 / 2 + gap,
        0.5,
        max_steps=20_000,
        polish=polish,
        box=Box(jnp.array([0.0]), jnp.array([3.0])),
    )
    assert status(end) in (Status.LEFT_DOMAIN, Status.MAX_STEPS)
    assert status(end) is Status.LEFT_DOMAIN  # plain iteration gets through the bottleneck


@pytest.mark.parametrize("polish", POLISHES)
def test_polish_does_not_jump_over_a_ghost_to_another_branch_unseen(polish: str) -> None:
    """Past the ghost at 1 there is a stable point at 2.5: plain iteration ends there, and so must
    polish.
    """
    f = lambda x: x + (0.5 * (x - 1) ** 2 + 1e-4) * (2.5 - x)  # noqa: E731
    end = run(f, 0.5, max_steps=50_000, polish=polish, tol=1e-9)
    assert status(end) is Status.SUCCESSFUL and float(end.x[0]) == pytest.approx(2.5, abs=1e-8)


@pytest.mark.parametrize("polish", ["anderson", "newton"])
@pytest.mark.parametrize("x0", [0.2, -0.2, 1e-3])
def test_polish_stays_on_the_branch_that_iteration_chose(x0: float, polish: str) -> None:
    """m = tanh(1.1 m) has an unstable 0, where Newton from a small m would go."""
    f = lambda m: jnp.tanh(1.1 * m)  # noqa: E731
    plain, polished = (run(f, x0, polish=p, max_steps=10_000) for p in ("none", polish))
    assert float(polished.x[0]) == pytest.approx(float(plain.x[0]), abs=1e-7)
    assert abs(float(plain.x[0])) > 0.4


@pytest.mark.parametrize("polish", ["anderson", "newton"])
@pytest.mark.parametrize("gap", [1e-2, 3e-3, 1e-3, 1e-4])
def test_polish_never_jumps_back_from_a_ghost(gap: float, polish: str) -> None:
    """Plain iteration passes the ghost at 1 and ends at 2.5; Newton from there can land on the
    unstable point -1.
    """
    f = lambda x: x + (0.5 * (x - 1) ** 2 + gap) * (2.5 - x) * (x + 1) / 2  # noqa: E731

    def solve(x):
        return follow(
            f, x[None], tol=1e-9, max_steps=20_000, damping=0.0, box=everywhere(1), polish=polish
        )  # type: ignore[arg-type]

    ends = jax.jit(jax.vmap(solve))(jnp.linspace(-0.8, 0.8, 81))
    assert np.all(ends.status == Status.SUCCESSFUL.code)
    np.testing.assert_allclose(ends.x[:, 0], 2.5, atol=1e-8)


@given(
    matrix=st.lists(st.floats(-0.3, 0.3), min_size=9, max_size=9),
    shift=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
)
def test_linear_maps(matrix: list[float], shift: list[float]) -> None:
    """Newton is exact in one step and Anderson in n + 2, and both agree with (1 - A)^{-1} b."""
    a, b = jnp.array(matrix).reshape(3, 3), jnp.array(shift)
    exact = np.linalg.solve(np.eye(3) - np.asarray(a), np.asarray(b))
    first = Iteration(jnp.zeros(3), b, jnp.asarray(jnp.inf), jnp.asarray(1), jnp.asarray(0))
    for accelerate in (anderson, newton):
        end = _accelerated(accelerate)(a, b, first)
        assert status(end) is Status.SUCCESSFUL
        np.testing.assert_allclose(end.x, exact, atol=1e-9)
    assert int(end.steps) <= 3


@partial(jax.jit, static_argnums=0)
def _jitted(
    accelerate: Callable[..., Iteration], a: jax.Array, b: jax.Array, first: Iteration
) -> Iteration:
    return accelerate(lambda x: a @ x + b, first, tol=1e-11, max_steps=60)


def _accelerated(accelerate: Callable[..., Iteration]) -> Callable[..., Iteration]:
    return partial(_jitted, accelerate)


def test_newton_with_a_given_jacobian() -> None:
    first = Iteration(
        jnp.ones(1), jnp.cos(jnp.ones(1)), jnp.asarray(jnp.inf), jnp.asarray(1), jnp.asarray(0)
    )
    ends = [
        newton(jnp.cos, first, tol=1e-14, max_steps=20, jacobian=j)
        for j in (None, lambda x: -jnp.sin(x)[None])
    ]
    assert [status(e) for e in ends] == [Status.SUCCESSFUL] * 2
    assert (
        float(ends[0].x[0]) == float(ends[1].x[0]) == pytest.approx(0.7390851332151607, abs=1e-15)
    )


def test_a_singular_newton_step_is_not_a_success() -> None:
    """Slope 1 everywhere: no step exists."""
    first = Iteration(
        jnp.ones(1), jnp.full(1, 2.0), jnp.asarray(jnp.inf), jnp.asarray(1), jnp.asarray(0)
    )
    assert status(newton(lambda x: x + 1, first, tol=1e-10, max_steps=20)) is Status.NON_FINITE


def test_anderson_refuses_a_candidate_outside_the_box() -> None:
    unit = Box(jnp.array([0.0]), jnp.array([1.0]))
    f = lambda x: jnp.sqrt(jnp.clip(x, 0, None)) * 0.5 + 0.4  # noqa: E731
    first = Iteration(
        jnp.array([0.0]), f(jnp.array([0.0])), jnp.asarray(jnp.inf), jnp.asarray(1), jnp.asarray(0)
    )
    end = anderson(f, first, tol=1e-12, max_steps=40, box=unit)
    assert status(end) is Status.SUCCESSFUL and unit.contains(end.x)


POWER_MAPS: dict[float, Map] = {
    power: lambda x, power=power: jnp.where(x >= 0, 0.9 * jnp.abs(x) ** power, jnp.nan)
    for power in (1.2, 2.0, 3.0)
}
"""NaN below 0, where the fixed point is: at the end of the range."""


@pytest.mark.parametrize("polish", ["anderson", "newton"])
@pytest.mark.parametrize("power", POWER_MAPS)
@given(x0=st.floats(1e-3, 1.0))
def test_no_accelerator_looks_outside_the_box(polish: str, power: float, x0: float) -> None:
    unit = Box(jnp.array([0.0]), jnp.array([1.0]))
    end = run(POWER_MAPS[power], x0, tol=1e-12, polish=polish, box=unit)
    assert status(end) is Status.SUCCESSFUL and 0 <= float(end.x[0]) <= 1e-10


def test_a_step_out_of_the_box_goes_most_of_the_way() -> None:
    unit = Box(jnp.zeros(2), jnp.ones(2))
    x = jnp.array([0.5, 0.2])
    assert unit.short_of(x, jnp.array([0.1, -0.1])).tolist() == pytest.approx([0.6, 0.1])
    assert unit.short_of(x, jnp.array([0.1, -0.4])).tolist() == pytest.approx([0.545, 0.02])
    assert unit.settled(jnp.array([-1e-12, 1.0])).tolist() == [0.0, 1.0]
    assert unit.settled(jnp.array([-1e-3, 1.0])).tolist() == [-1e-3, 1.0]


def test_a_point_does_not_depend_on_its_neighbours() -> None:
    """Under vmap every lane ends as it would alone, with its own step count."""

    def solve(slope: jax.Array) -> Iteration:
        return follow(
            lambda y: slope * jnp.cos(y) + 1,
            jnp.zeros(1),
            tol=1e-11,
            max_steps=500,
            damping=0.0,
            box=everywhere(1),
        )

    slopes = jnp.array([0.1, 0.5, 0.9, 1.1])
    together = jax.jit(jax.vmap(solve))(slopes)
    for i, slope in enumerate(slopes):
        alone = jax.jit(solve)(slope)
        assert int(alone.steps) == int(together.steps[i]) and int(alone.status) == int(
            together.status[i]
        )
        assert float(alone.x[0]) == pytest.approx(float(together.x[i, 0]), abs=1e-14)
