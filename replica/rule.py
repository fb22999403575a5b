"""Sizes of the node sets that averages and integrals are evaluated with."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Rule:
    """Sizes of the node sets.

    Attributes
    ----------
    gaussian, line, mellin : int
        Nodes of a smooth Gaussian average, of a line integral and of a Mellin integral.
    panel, focused : int
        Nodes per panel between kinks, and of a Gaussian average with a narrow feature.
    widen : float
        Factor on the ranges of integration (and the period of Mellin integrals), so that a finer rule also
        shows what a coarser one cuts off.
    log2_samples, scrambles, seed : int
        Quasi-Monte Carlo sets of the sampled route.
    tokens : int or None
        Number of tokens L of the sampled route (there it is an array size).
    """

    gaussian: int = 71
    line: int = 201
    mellin: int = 361
    panel: int = 64
    focused: int = 161
    widen: float = 1.0
    log2_samples: int = 12
    scrambles: int = 8
    seed: int = 0
    tokens: int | None = None

    def finer(self) -> Rule:
        """The rule with 1.6 times as many nodes; the difference between the two is the error estimate."""
        sizes = {k: int(1.6 * getattr(self, k)) for k in ("gaussian", "line", "mellin", "panel", "focused")}
        return replace(self, widen=1.15 * self.widen, **sizes)
