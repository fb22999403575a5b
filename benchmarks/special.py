"""Special functions: nanoseconds an element, ours and those of JAX.

    python benchmarks/special.py

CPU time on one core, the median of several runs; blocks that fit the first cache, added up inside
one program, so that neither dispatch nor memory counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from solvers import special

BLOCKS, SIZE, RUNS = 400, 1024, 12
Function = Callable[[jax.Array], jax.Array]
PAIRS: dict[str, tuple[Function | None, Function | None]] = {
    "exp": (None, jnp.exp),
    "erf": (special.erf, jsp.erf),
    "erfc": (special.erfc, jsp.erfc),
    "log(1 + e^x)": (special.softplus, lambda x: jnp.logaddexp(x, 0.0)),
    "log(1 + x^2)": (lambda x: special.log1p(x * x), lambda x: jnp.log1p(x * x)),
    "log Phi": (special.log_ndtr, jsp.log_ndtr),
    "phi/Phi": (special.inverse_mills, None),
    "x + phi/Phi": (special.mills_gap, None),
    "1 - m (x + m)": (special.truncated_variance, None),
}


def cost(f: Function | None) -> str:
    """Nanoseconds an element."""
    if f is None:
        return ""
    x = jnp.asarray(np.random.default_rng(0).uniform(-6, 6, (BLOCKS, SIZE)))

    def total(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, row: (c + f(row), None), jnp.zeros(SIZE), x)[0]

    program = jax.jit(total).lower(x).compile()
    spent = []
    for _ in range(RUNS):
        begun = time.process_time()
        jax.block_until_ready(program(x))
        spent.append(time.process_time() - begun)
    return f"{np.median(spent) / x.size * 1e9:.1f}"


def main() -> None:
    """One line per function."""
    print("| function | ns an element | JAX |")
    print("|---|---|---|")
    for name, (ours, other) in PAIRS.items():
        print(f"| {name} | {cost(ours)} | {cost(other)} |", flush=True)


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
