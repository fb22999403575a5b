"""Newton steps of the proximal minimisation: nanoseconds per step and sample on one core.

    python benchmarks/newton.py [tokens ...]          (4 by default)

Softmax attention in closed form, and the same weights differentiated automatically, which is what
a weight gets that is not made token by token. CPU time, the least of several runs, so that what
else runs on the machine counts little; no sample converges, so that every step is taken.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from solvers.attention.global_prox import BLOCK
from solvers.attention.problem import Attention, Channel, Norm, TokenWeight
from solvers.attention.prox import descend

STEPS, BLOCKS, RUNS = 6, 30, 8
SCALE = 1.3


def softmax(chi: jax.Array, present: jax.Array) -> jax.Array:
    """As the model writes it."""
    return jax.nn.softmax(exponent(chi, present), axis=0)


def exponent(chi: jax.Array, present: jax.Array) -> jax.Array:
    """Of one token, absent tokens at -inf."""
    return SCALE * chi + jnp.log(present)


ROUTES = {
    "closed form": Attention(softmax, token=TokenWeight(exponent, Norm.SOFTMAX)),
    "automatic": Attention(softmax),
}


def channel(tokens: int, n: int) -> Channel:
    """Random problems with many valleys."""
    rng = np.random.default_rng(0)
    key, value = (jnp.array(rng.normal(size=(tokens, n))) for _ in range(2))
    label = jnp.array(rng.normal(size=n))
    return Channel(key, value, label, jnp.array(3.0), jnp.array(0.7), jnp.ones((tokens, n)))


def measured(attend: Attention, tokens: int) -> tuple[float, float]:
    """Seconds of compilation, and seconds per step and sample."""
    at = channel(tokens, BLOCK)

    def steps(at: Channel) -> tuple[jax.Array, jax.Array]:
        end = descend(attend, at, at.key, max_steps=STEPS, tolerance=0.0)
        return end.chi, end.height

    begun = time.process_time()
    program = jax.jit(steps).lower(at).compile()
    compiled = time.process_time() - begun
    jax.block_until_ready(program(at))
    spent = []
    for _ in range(RUNS):
        begun = time.process_time()
        for _ in range(BLOCKS):
            jax.block_until_ready(program(at))
        spent.append(time.process_time() - begun)
    return compiled, min(spent) / (BLOCKS * BLOCK * STEPS)


def main(arguments: list[str]) -> None:
    """One line per number of tokens and route."""
    print("| tokens | route | compilation, s | ns per step and sample | steps a second and core |")
    print("|---|---|---|---|---|")
    for tokens in map(int, arguments or ["4"]):
        for name, attend in ROUTES.items():
            compiled, each = measured(attend, tokens)
            print(
                f"| {tokens} | {name} | {compiled:.1f} | {each * 1e9:.0f} | {1 / each:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    with jax.enable_x64(True):
        main(sys.argv[1:])
