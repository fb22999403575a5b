"""Signal subspace recovery, the two tables and their figure; 30 trials each.

    python benchmarks/subspace.py [--explicit]

(i) R = 500 informative tokens at theta = 1, L - R in {500, ..., 10000}; (ii) theta in {0.25, 0.5,
1, 2} at R = 500, L - R = 2500. The source does not say d, the steps and how many of them, nor theta
in (i) and L - R in (ii). Our choice: d = 200, one sequence per step, eta_k = c/(k + k0)^0.6 with k0
a tenth of the steps, the same steps for all rows of a table, the query starting uniformly on the
sphere. Tokens are drawn in projection (equal in law, see replica.simulate.subspace); --explicit
adds a run with every coordinate of every token at the largest size, with its peak memory.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import xarray as xr

import replica
from replica.check.ascent import compare_ascent
from replica.plots import draw_ascent, save_figure
from replica.simulate.subspace import Ascent

R, D, TRIALS = 500, 200, 30
NOISE_TOKENS = (500, 1000, 2500, 5000, 10_000)
STRENGTHS = (0.25, 0.5, 1.0, 2.0)
FIRST = Ascent(
    1.0, D, 0, R, c=0.42, steps=2000, k0=200, gamma=0.6, trials=TRIALS, tokens="projected"
)
SECOND = replace(FIRST, L=R + 2500, c=0.85, steps=4000, k0=400)
COLUMNS = (
    "setting",
    "r",
    "abs(rho) (s.e.)",
    "theory",
    "10-90 %",
    "noise attention (s.e.)",
    "theory",
    "1 - a(1)",
    "rho > 0",
    "largest abs(z)",
    "s",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def row(name: str, ascent: Ascent) -> xr.Dataset:
    """Run one setting and print its line of the table."""
    begun = time.perf_counter()
    report = compare_ascent(ascent)
    seconds = time.perf_counter() - begun
    dataset = report.dataset
    entries = {c.name: c for c in report.comparisons}
    final, noise, sign = list(entries.values())[-3:]
    low, high = abs(dataset.rho[:, -1]).quantile([0.1, 0.9]).values
    limit = next(iter(report.references.values()))
    print(
        f"| {name} | {ascent.share:.4f} | {final.mean:.4f} ({final.standard_error:.4f}) |"
        f" {final.theory:.4f} | {low:.3f}-{high:.3f} | {noise.mean:.4f}"
        f" ({noise.standard_error:.4f}) | {noise.theory:.4f} | {limit:.4f} | {sign.mean:.2f} |"
        f" {max(abs(c.z) for c in report.comparisons):.1f} | {seconds:.0f} |",
        flush=True,
    )
    return dataset


def explicit() -> None:
    """The largest size with explicit tokens: agreement, seconds per step, peak memory of this
    process.
    """
    ascent = replace(FIRST, L=R + NOISE_TOKENS[-1], tokens="explicit", c=1.0, steps=40, k0=4)
    print(
        f"explicit tokens, L = {ascent.L}, d = {D}, {TRIALS} trials, {ascent.steps} steps:"
        f" {ascent.memory() / 1e6:.0f} MB announced",
        flush=True,
    )
    print(HEADER, flush=True)
    row("explicit", ascent)
    print(
        "peak memory of the process:"
        f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB\n",
        flush=True,
    )


def main() -> None:
    """Both tables, the file, the figure."""
    if "--explicit" in sys.argv[1:]:
        explicit()
    print(HEADER)
    first = {
        f"L - R = {n}": row(f"L - R = {n}", replace(FIRST, L=R + n, seed=i))
        for i, n in enumerate(NOISE_TOKENS)
    }
    second = {
        rf"$\theta$ = {t:g}": row(f"theta = {t:g}", replace(SECOND, theta=t, seed=10 + i))
        for i, t in enumerate(STRENGTHS)
    }
    folder = Path("results")
    folder.mkdir(exist_ok=True)
    for i, runs in enumerate((first, second), 1):
        for j, dataset in enumerate(runs.values()):
            replica.save(folder / f"subspace_{i}_{j}.h5", dataset, force=True)
    titles = rf"$R=500$, $\theta=1$, $d={D}$", rf"$R=500$, $L-R=2500$, $d={D}$"
    save_figure(
        draw_ascent(dict(zip(titles, (first, second), strict=True))),
        folder / "subspace.png",
        force=True,
    )
    print(f"wrote {folder / 'subspace.png'}")


if __name__ == "__main__":
    main()
