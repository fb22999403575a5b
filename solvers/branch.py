"""One branch from one start: plain iteration chooses it, acceleration polishes it.

Near a spinodal the accelerators would stall at, or jump from, the ghost of a vanished fixed point.
Hence plain (damped) iteration runs until its residual is small and shrinking; a polished point is
accepted only if it meets the tolerance close to where plain iteration was heading, in its
direction, and attracts plain iteration from there; otherwise plain iteration goes on.

The search is a machine that asks for one value of F at a time,

    PLAIN -> PROBE -> POLISH -> BESIDE  (-> PLAIN, where the polished point is refused)

so that F, which is what takes long to compile, stands in the program once.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .accelerate import Accelerator, Anderson, Newton, memory_size
from .fixed_point import Box, Map, advanced, converged, fixed_point, unstarted
from .result import RUNNING, Iteration, Status

Polish = Literal["anderson", "newton", "none"]
SWITCH = 3e-2
"""Residual at which polishing is first tried."""
STRICTER = 30.0
"""By this factor smaller is the residual at which it is tried again."""
POLISH_STEPS = 25
REACH = 20.0
"""A polished point may lie this many (residual / (1 - rate)) away from the plain iterate."""
NEARBY = 1e-3
"""One plain step from this fraction of the way back to the plain iterate must approach the polished
point.
"""
PLAIN, PROBE, POLISH, BESIDE = range(4)
"""What the value that is asked for is needed for: the next plain iterate; the rate at which plain
iteration shrinks; the accelerator; whether plain iteration stays at the polished point.
"""


class _Search(NamedTuple):
    """Where a search stands; ``asked`` is the point whose image it needs next."""

    stage: jax.Array
    asked: jax.Array
    now: Iteration  # of plain iteration, steps counted from its own beginning
    before: jax.Array
    spent: jax.Array  # evaluations before plain iteration began
    goal: jax.Array
    probe: Iteration
    rate: jax.Array
    fine: Iteration
    memory: Any
    end: Iteration  # RUNNING until there is a result


def follow(
    f: Map,
    x0: jax.Array,
    *,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    damping: float | jax.Array,
    box: Box,
    polish: Polish = "anderson",
    jacobian: Map | None = None,
) -> Iteration:
    """The fixed point that plain iteration from ``x0`` reaches, in fewer evaluations.

    The accelerator's answer is taken only if it lies where plain iteration was going. ``steps``
    counts every evaluation of ``f``.

    Parameters
    ----------
    f : callable
        The map, shape (n,) -> (n,).
    x0 : array, shape (n,)
        Start; it chooses the branch.
    tol, max_steps, damping, box : as in ``fixed_point``
        Tolerance on the undamped residual, largest number of evaluations, weight on the old
        iterate, domain.
    polish : {"anderson", "newton", "none"}
        Accelerator used once plain iteration has chosen.
    jacobian : callable, optional
        dF/dx, shape (n,) -> (n, n), for "newton".

    Returns
    -------
    Iteration
        Point, image, residual, evaluations and status code.
    """
    if polish == "none":
        return fixed_point(f, x0, tol=tol, max_steps=max_steps, damping=damping, box=box)
    slope = jax.jacfwd(f) if jacobian is None else jacobian
    method: Accelerator = (
        Newton(slope, box) if polish == "newton" else Anderson(memory_size(x0.shape[0]), box)
    )
    machine = _Machine(method, box, tol, max_steps, damping)

    def step(search: _Search) -> _Search:
        return machine.informed(search, f(search.asked))

    return jax.lax.while_loop(
        lambda search: search.end.status == RUNNING, step, machine.begun(x0)
    ).end


class _Machine(NamedTuple):
    """The transitions of a search."""

    method: Accelerator
    box: Box
    tol: float | jax.Array
    max_steps: int | jax.Array
    damping: float | jax.Array

    def begun(self, x0: jax.Array) -> _Search:
        """Before any evaluation."""
        none = unstarted(x0)
        stopped = jnp.where(self.max_steps > 0, RUNNING, Status.MAX_STEPS.code)
        zero = jnp.zeros_like(none.steps)
        return _Search(
            stage=jnp.asarray(PLAIN),
            asked=x0,
            now=none,
            before=jnp.full_like(x0, jnp.nan),
            spent=zero,
            goal=jnp.asarray(SWITCH, x0.dtype),
            probe=none,
            rate=jnp.zeros_like(none.residual),
            fine=none,
            memory=self.method.begin(none),
            end=none._replace(status=stopped),
        )

    def informed(self, search: _Search, fx: jax.Array) -> _Search:
        """The next state, and the next point that is asked for, now that F(asked) is known."""
        by_stage = (self._plain, self._probe, self._polish, self._beside)
        after = jax.lax.switch(search.stage, by_stage, search, fx)
        nexts = (self._mixed, self._mixed, self._proposed, self._back)
        return after._replace(asked=jax.lax.switch(after.stage, nexts, after))

    # after a value -------------------------------------------------------------------------------

    def _plain(self, search: _Search, fx: jax.Array) -> _Search:
        goal = jnp.maximum(search.goal, self.tol)
        now = advanced(search.now, search.before, search.asked, fx, self.box, goal)
        goes_on = (now.status == RUNNING) & (search.spent + now.steps < self.max_steps)
        status = jnp.where(now.status == RUNNING, Status.MAX_STEPS.code, now.status)
        met = (status == Status.SUCCESSFUL.code) & ~(now.residual <= self.tol)
        ended = now._replace(steps=search.spent + now.steps, status=status)
        return search._replace(
            stage=jnp.where(goes_on, PLAIN, PROBE),
            now=now,
            before=search.now.x,
            end=_chosen(goes_on | met, search.end, ended),
        )

    def _probe(self, search: _Search, fx: jax.Array) -> _Search:
        x, used = search.asked, search.spent + search.now.steps + 1
        residual, status = converged(x, fx, self.box, self.tol)
        begun = Iteration(x, fx, residual, used, status)
        # Two more plain residuals would give the rate; one is enough and comes free.
        after = search._replace(
            probe=begun._replace(status=jnp.full_like(status, RUNNING)),
            rate=jnp.clip(residual / search.now.residual, 0.0, 0.999),
            memory=self.method.begin(begun),
        )
        return self._polished(after, begun)

    def _polish(self, search: _Search, fx: jax.Array) -> _Search:
        fine, memory = self.method.absorb(search.fine, search.memory, search.asked, fx, self.tol)
        return self._polished(search._replace(memory=memory), fine)

    def _polished(self, search: _Search, fine: Iteration) -> _Search:
        budget = jnp.minimum(search.probe.steps + POLISH_STEPS, self.max_steps)
        goes_on = (fine.status == RUNNING) & (fine.steps < budget)
        return search._replace(stage=jnp.where(goes_on, POLISH, BESIDE), fine=fine)

    def _beside(self, search: _Search, fx: jax.Array) -> _Search:
        probe, fine, beside = search.probe, search.fine, search.asked
        image = (1 - self.damping) * fx + self.damping * beside
        away, home = (jnp.max(jnp.abs(at - fine.x)) for at in (beside, image))
        step = fine.x - probe.x
        reach = REACH * probe.residual / (1 - search.rate) + self.tol
        accepted = (
            (fine.status == Status.SUCCESSFUL.code)
            & (jnp.max(jnp.abs(step)) <= reach)
            & (jnp.vdot(step, probe.fx - probe.x) >= 0)
            & (home <= away + 2 * self.tol)
            & (probe.residual < search.now.residual)
        )
        spent = fine.steps + 1
        out = jnp.where(spent < self.max_steps, RUNNING, Status.MAX_STEPS.code)
        refused = probe._replace(steps=spent, status=out)
        return search._replace(
            stage=jnp.full_like(search.stage, PLAIN),
            now=probe._replace(steps=jnp.zeros_like(spent)),
            spent=spent,
            goal=search.goal / STRICTER,
            end=_chosen(accepted, fine._replace(steps=spent), refused),
        )

    # the next point ------------------------------------------------------------------------------

    def _mixed(self, search: _Search) -> jax.Array:
        mixed = (1 - self.damping) * search.now.fx + self.damping * search.now.x
        return self.box.settled(mixed)

    def _proposed(self, search: _Search) -> jax.Array:
        return self.method.propose(search.fine, search.memory)

    def _back(self, search: _Search) -> jax.Array:
        return search.fine.x + NEARBY * (search.probe.x - search.fine.x)


def _chosen(first: jax.Array, a: Iteration, b: Iteration) -> Iteration:
    """``a`` where ``first`` holds, else ``b``."""
    return jax.tree.map(lambda u, v: jnp.where(first, u, v), a, b)
