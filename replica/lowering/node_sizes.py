"""Sizes of the node sets that averages and integrals are evaluated with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

NODES = ("gaussian", "line", "mellin", "subinterval", "localised")
"""The sizes that are refined together."""
FINER = 1.6
"""One refinement has so many times the nodes; buckets are so far apart."""
ROOM = {"gaussian": 1.15, "line": 1.26, "mellin": 1.26, "subinterval": 1.26, "localised": 1.15}
"""A bucket holds so many times the default sizes, and so many times their refinements: the second
node sets (``node_sets``), and one step of what models need beyond the default (``at_least``).
"""


@dataclass(frozen=True)
class NodeSizes:
    """Sizes of the node sets.

    Attributes
    ----------
    gaussian, line, mellin : int
        Nodes of a smooth Gaussian average, of a line integral and of a Mellin integral.
    subinterval, localised : int
        Nodes per subinterval between breakpoints, and of a Gaussian average with a narrow feature.
    range_factor : float
        Factor on the ranges of integration (and the period of Mellin integrals), so that a finer
        rule also shows what a coarser one cuts off.
    log2_samples, scrambles, seed : int
        Quasi-Monte Carlo sets of the sampled route.
    tokens : int or None
        Number of tokens L where they are explicit (there it is an array size).
    winner : int
        Nodes of the integral over the largest noisy key.
    is_shifted : bool
        Whether these are the second node sets of their sizes, see ``shifted``.
    """

    gaussian: int = 71
    line: int = 221
    mellin: int = 401
    subinterval: int = 64
    localised: int = 161
    range_factor: float = 1.0
    log2_samples: int = 12
    scrambles: int = 8
    seed: int = 0
    tokens: int | None = None
    winner: int = 36
    is_shifted: bool = False

    def attributes(self) -> dict[str, Any]:
        """What a file says of them: the sizes, of which both node sets are."""
        return {name: value for name, value in vars(self).items() if name != "is_shifted"}

    def shifted(self) -> NodeSizes:
        """The second node sets of these sizes, of the same bucket: the difference from the first is
        the error estimate.
        """
        return replace(self, is_shifted=True, seed=self.seed + 1)

    def bucket(self) -> NodeSizes:
        """The lengths that a program is compiled for: it takes all node sets of this bucket."""
        units = {name: ROOM[name] * _default(name) for name in NODES}
        lengths = {name: _bucket(getattr(self, name), unit) for name, unit in units.items()}
        return replace(self, **lengths, range_factor=1.0, is_shifted=False)

    def without_samples(self) -> NodeSizes:
        """The same for a program that has none: whatever the samples are, it is one."""
        sampling = ("log2_samples", "scrambles", "seed", "tokens", "winner")
        return replace(self, **{name: _default(name) for name in sampling})

    def refined(self) -> NodeSizes:
        """1.6 times as many nodes on the same ranges and four times as many samples: the next level
        of a solve.
        """
        more = {name: int(FINER * getattr(self, name)) for name in NODES}
        return replace(self, **more, log2_samples=self.log2_samples + 2)

    def smaller(self) -> NodeSizes:
        """1.6 times fewer nodes and four times fewer samples."""
        fewer = {name: int(getattr(self, name) / FINER) for name in NODES}
        return replace(self, **fewer, log2_samples=self.log2_samples - 2)

    def at_least(self, needed: Mapping[str, float]) -> NodeSizes:
        """These with sizes raised to ``needed``, in steps of 1.25 so that few different programs
        are compiled.
        """
        steps = {
            k: max(0, math.ceil(math.log(need / getattr(self, k)) / math.log(1.25)))
            for k, need in needed.items()
        }
        return replace(self, **{k: math.ceil(getattr(self, k) * 1.25**n) for k, n in steps.items()})


def _default(name: str) -> Any:
    return next(f.default for f in fields(NodeSizes) if f.name == name)


def _bucket(n: int, unit: float) -> int:
    """The smallest odd length unit * FINER^k that holds ``n`` nodes."""

    def length(k: int) -> int:
        return 2 * (math.ceil(unit * FINER**k) // 2) + 1

    k = math.ceil(math.log(n / unit) / math.log(FINER))
    return next(length(i) for i in (k - 1, k, k + 1) if length(i) >= n)
