"""Freeze the numbers: write tests/data/frozen.json from the code as it is.

    python tests/freeze.py             every case, in a process for each group
    python tests/freeze.py NAME ...    these cases again, the others kept
    python tests/freeze.py --files     the stored files of tests/data/schema1 (once, from old code)

The numbers are those of the machine that ran this: another processor may round differently.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import frozen_cases
from frozen_cases import DATA, FILE

from replica import cli, versions

Case = dict[str, Any]

POINT = "--set L=2 --set nu=1 --set Delta=0.1"
MAX = f"--set rule=max {POINT}"
KEYS = "--set L=2 --set nu=inf --set Delta=0.1"
RIDGE = "--set lam_k=1 --set lam_v=1 --set alpha=2"
FLOW_AT = "--at m_k=0.3,q_k=1,m_v=0.2,q_v=1,m_kv=0.1,m_vk=-0.1,q_kv=0.2 --json"
ALL_MODELS = (
    "perceptron-bayes",
    "slr-bayes",
    "slr-erm",
    "slr-flow",
    "slr-population",
    "spiked-wigner",
    "subspace",
)
ACTIVATIONS = (
    "softmax",
    "softplus",
    "linear",
    "linear_pure",
    "erf",
    "erf_b0",
    "erf_odd",
    "sigmoid",
    "relu",
    "softplus_elementwise",
)
NORMALISED = ("softmax", "softplus")
SENSING = "frozen_models/compressed_sensing.py"
CLASSES = "frozen_models/classification.py"
PRODUCT = "frozen_models/sign_product.py"


def case(name: str, *commands: str, slow: bool = False, **more: Any) -> Case:
    """A case of commands; ``more`` may hold files, call, loose."""
    return {
        "name": name,
        "slow": slow,
        **({"commands": list(commands)} if commands else {}),
        **more,
    }


def called(name: str, slow: bool = False) -> Case:
    """A case of a call from Python."""
    return case(f"python {name}", slow=slow, call=name)


# what is printed ----------------------------------------------------------------------------------


def shown() -> list[Case]:
    """Texts, and the sentences of what is refused."""
    texts = [case("models", "models --json", "models")]
    for name in ALL_MODELS:
        lines = (f"show {name}", f"show {name} --latex", f"show {name} --json")
        texts.append(case(f"show {name}", *lines, slow=name == "slr-flow"))
    options = (
        "show slr-bayes --set rule=max",
        "show slr-bayes --set location=0.6,0.1x4",
        "show slr-bayes --set L=1:0.2,4:0.8",
        "show slr-erm --set activation=1+tanh(chi) --set rule=max",
        "show slr-erm --set activation=exp(chi/2) --set normalised=true --set L=1:1/3,2:2/3",
        "show slr-population --set activation=erf --set rule=max",
        "show slr-population --set activation=softplus --set L=1:0.2,4:0.8",
    )
    own = (f"show {SENSING}", f"show {SENSING} --latex", f"show {CLASSES}", f"show {PRODUCT}")
    own = (*own, f"show {CLASSES} --set loss=hinge --json")
    return [
        *texts,
        case("show options", *options),
        case("show own models", *own, slow=True),
        refused(),
    ]


def refused() -> Case:
    """One sentence for each mistake."""
    wigner = "solve spiked-wigner --set snr=2"
    bayes = "solve slr-bayes --set L=4 --set nu=1"
    return case(
        "refused",
        "solve slr-bays --set alpha=1",
        f"{bayes} --set Delta=0.1 --set alpa=1",
        "solve slr-population --set activation=sofmax --set L=2 --set nu=1 --set Delta=0",
        f"{bayes} --set Delta=0.1 --set alpha=0",
        f"{bayes} --set Delta=0 --set alpha=1",
        "solve slr-bayes --set alpha=1 --set L=2.5 --set nu=1 --set Delta=0.1",
        f"{bayes} --set Delta=0.1 --set alpha=nan",
        f"{bayes} --set Delta=0.1 --set alpha=one",
        "solve slr-bayes --set alpha=1",
        "solve slr-bayes --set alpha=1 --set location=0.5,0.4 --set nu=1 --set Delta=0.1",
        "solve slr-bayes --set alpha=1 --set rule=max --set location=0.5,0.5 --set nu=1",
        "solve slr-bayes --set alpha=1 --set L=1:0.2,4:0.7 --set nu=1 --set Delta=0.1",
        f"solve slr-erm {POINT} {RIDGE} --set activation=erf_b0",
        f"solve slr-erm {POINT} {RIDGE} --set activation=1+beta*chi",
        f"solve slr-erm {POINT} {RIDGE} --set normalised=true",
        f"solve slr-flow {MAX}",
        f"solve slr-population {MAX} --set activation=softplus",
        f"{wigner} --set snr=3",
        f"{wigner} --damping 1",
        f"{wigner} --tol 0",
        f"{wigner} --route fast",
        f"{wigner} --route sampled",
        "eval spiked-wigner --set snr=2 --at p=0.5",
        "eval spiked-wigner --set snr=2",
        "eval spiked-wigner --set snr=2 --at q=2",
        "eval spiked-wigner --set snr=2 --at q=x",
        "sweep spiked-wigner -o x.h5 --over snr=1:2",
        "sweep spiked-wigner -o x.h5 --over snr=-1:2:3",
        "sweep spiked-wigner -o x.h5 --over snr=1:2:3 --set snr=2",
        "sweep spiked-wigner -o x.h5 --over snr=1:2:3 --warm alpha",
        "sweep spiked-wigner -o missing/x.h5 --over snr=1:2:3",
        "sweep subspace -o x.h5 --over theta=1:2:2 --set r=0.1",
        "sweep slr-erm -o x.h5 --over alpha=1:2:2 --optimise lam_k --warm alpha",
        "phase slr-population --set L=2 --set Delta=0.1 --control nu",
        "phase slr-bayes --set nu=1 --set Delta=0.1 --control L",
        f"phase slr-bayes {POINT} --within 2:1",
        f"phase slr-bayes {POINT} --over Delta=0.1:0.2:2",
        f"phase slr-erm {POINT} --set lam_k=1 --set lam_v=1",
        "phase subspace --control q --set r=0.1",
        "check",
        "check spiked-wigner --set snr=2",
        f"check slr-erm {POINT} {RIDGE} --damping 0.5",
        f"check slr-bayes {POINT} --set alpha=1 --trials 1",
        f"check {PRODUCT} --set alpha=1",
        f"solve {CLASSES} --set alpha=1 --set lam=0.1 --set loss=cubic",
        "solve frozen_models/none.py --set alpha=1",
        "solve broken.py --set alpha=1",
        "info none.h5",
        "info broken.py",
        "export schema1/sweep.h5 -o out.txt",
        "plot schema1/sweep.h5 -o out.docx",
        files={"broken.py": "from equations import bayes_gml\n"},
    )


# files --------------------------------------------------------------------------------------------


def files() -> list[Case]:
    """Files of schema 1, and what is made of new ones."""
    old = []
    for name, drawn in (("sweep", "mse"), ("curve", "risk")):
        stored = f"schema1/{name}.h5"
        lines = (f"info {stored} --json", f"info {stored}", f"export {stored} -o {name}.csv --json")
        old.append(
            case(f"schema 1 {name}", *lines, f"plot {stored} -o {name}.png -y {drawn} --json")
        )
    resumed = "sweep spiked-wigner --over snr=0.5:4:3 -o w.h5"
    return [
        *old,
        case("schema 1 loaded", call="loaded"),
        case(
            "sweep spiked-wigner",
            "sweep spiked-wigner --over snr=0.5:4:6 -o w.h5 --json",
            "info w.h5 --json",
            "info w.h5",
            "export w.h5 -o w.csv",
            "plot w.h5 -o w.png -y mse --json",
            "sweep spiked-wigner --over snr=0.5:4:6 -o w.h5",
            "sweep spiked-wigner --over snr=0.5:4:6 -o w.h5 --resume",
            "sweep spiked-wigner --over snr=0.5:4:6 -o w.h5 --resume --tol 1e-9",
        ),
        case("sweep a failure", f"{resumed} --max-steps 3", f"{resumed} --force --quiet"),
        case("sweep warm", "sweep spiked-wigner --over snr=0.8:4:5:log --warm snr -o w.h5"),
        case("solve stored", "solve spiked-wigner --set snr=2 -o p.h5", "export p.h5 -o p.csv"),
    ]


# points -------------------------------------------------------------------------------------------


def small_models() -> list[Case]:
    """What compiles fast."""
    wigner = "solve spiked-wigner --set"
    return [
        case("solve spiked-wigner", f"{wigner} snr=2 --json", f"{wigner} snr=0.5 --json"),
        case(
            "solve spiked-wigner text",
            f"{wigner} snr=2",
            "eval spiked-wigner --set snr=2 --at q=0.3",
        ),
        case("solve damped", f"{wigner} snr=2 --damping 0.5 --tol 1e-8 --json"),
        case("solve failed", f"{wigner} snr=2 --max-steps 2 --json"),
        case("solve accuracy", f"{wigner} snr=2 --accuracy 1e-18 --json"),
        case("eval spiked-wigner", "eval spiked-wigner --set snr=2 --at q=0.3 --json"),
        case(
            "phase spiked-wigner",
            "phase spiked-wigner --control snr --json",
            "phase spiked-wigner --control snr",
            "phase spiked-wigner --control snr --within 2:4 --json",
            "phase spiked-wigner --control snr --curve -o c.h5",
            "info c.h5 --json",
        ),
        case("solve perceptron-bayes", "solve perceptron-bayes --set alpha=1.3 --json"),
        case(
            "eval perceptron-bayes",
            "eval perceptron-bayes --set alpha=1.3 --at V=0.3 --json",
            slow=True,
        ),
        case(
            "phase perceptron-bayes",
            "phase perceptron-bayes --json",
            "phase perceptron-bayes --accuracy 1e-4",
            slow=True,
        ),
        case(
            "solve subspace",
            "solve subspace --set theta=3 --set r=0.1 --json",
            "solve subspace --set theta=3 --set r=0.1",
            "solve subspace --set theta=0.5 --set r=0.1 --set beta=2 --json",
            "solve subspace --set theta=3 --set r=0.1 --set d=50 --set L=500 --json",
            "eval subspace --set theta=1 --set r=0.1 --at rho=0.5 --json",
            "eval subspace --set theta=1 --set r=0.1 --set d=50 --set L=500 --at rho=0.5 --json",
        ),
        case(
            "phase subspace",
            "phase subspace --control theta --set r=0.1 --json",
            "phase subspace --control r --set theta=2",
            "phase subspace --control d/L --set theta=2 --set r=0.3 --set beta=0.8 --json",
            "phase subspace --control theta --set r=0.9999999 --json",
            "phase subspace --over theta=0.5:4:4 --over r=0.1:0.9:3 -o s.h5",
            "info s.h5",
        ),
    ]


def slr_bayes() -> list[Case]:
    """Bayes-optimal single-location regression."""
    point, line = f"{POINT} --set alpha=1", "phase slr-bayes"
    low = "--set L=4 --set nu=1 --set Delta=1e-4"
    at = "--at q_k=0.3,q_v=0.5 --json"
    nu_two = "--set alpha=1 --set nu=2 --set Delta=0.1"
    alone = "--set nu=1 --set Delta=0.1 --set alpha=1"
    return [
        case("solve slr-bayes", f"solve slr-bayes {point} --json"),
        case(
            "solve slr-bayes two branches",
            f"solve slr-bayes {low} --set alpha=1.4 --json",
            slow=True,
        ),
        case("eval slr-bayes", f"eval slr-bayes {point} {at}", slow=True),
        case(
            "solve slr-bayes sampled", f"solve slr-bayes {point} --route sampled --json", slow=True
        ),
        case(
            "eval slr-bayes location",
            f"eval slr-bayes {alone} --set location=0.5,0.3,0.2 {at}",
            slow=True,
        ),
        case(
            "eval slr-bayes lengths",
            f"eval slr-bayes {alone} --set L=1:0.2,4:0.8 {at}",
            slow=True,
        ),
        case(
            "solve slr-bayes max",
            f"solve slr-bayes --set rule=max --set L=2 {nu_two} --accuracy 0.1 --json",
            slow=True,
        ),
        case(
            "eval slr-bayes max nu=inf",
            f"eval slr-bayes --set rule=max {KEYS} --set alpha=1 {at}",
            slow=True,
        ),
        case(
            "eval slr-bayes max lengths",
            f"eval slr-bayes --set rule=max --set L=1:0.2,3:0.8 {nu_two} {at}",
            slow=True,
        ),
        case(
            "sweep slr-bayes",
            f"sweep slr-bayes {POINT} --over alpha=0.5:2:3 --warm alpha -o b.h5",
            slow=True,
        ),
        case("phase slr-bayes", f"{line} {low} --accuracy 1e-4 --json", slow=True),
        case(
            "phase slr-bayes curve",
            f"{line} {low} --accuracy 1e-4 --curve -o c.h5",
            "export c.h5 -o c.csv",
            slow=True,
        ),
        case(
            "phase slr-bayes diagram",
            f"{line} --set L=4 --set Delta=1e-4 --over nu=0.5:1:2 --accuracy 1e-3 -o d.h5",
            "info d.h5 --json",
            "plot d.h5 -o d.png --json",
            slow=True,
        ),
    ]


def slr_population() -> list[Case]:
    """Every activation spiked, some for max: one of each kind."""
    found = []
    for name in (*ACTIVATIONS, "bayes"):
        line = f"solve slr-population --set activation={name}"
        found.append(case(f"solve slr-population {name}", f"{line} {POINT} --json", slow=True))
    for name in ("softmax", "softplus", "linear", "erf", "bayes"):
        line = f"solve slr-population --set activation={name} --set rule=max"
        point = KEYS if name == "softplus" else POINT
        found.append(case(f"solve slr-population {name} max", f"{line} {point} --json", slow=True))
    line = "solve slr-population --set nu=1 --set Delta=0.1 --set L=1:0.2,4:0.8"
    sweep = "sweep slr-population --set activation=linear --set Delta=0.1 -o p.h5"
    return [
        *found,
        case("solve slr-population nu=inf", f"solve slr-population --set rule=max {KEYS} --json"),
        case("solve slr-population lengths", f"{line} --set activation=erf --json", slow=True),
        case(
            "solve slr-population lengths max",
            f"{line} --set rule=max --set activation=linear --json",
            slow=True,
        ),
        case(
            "eval slr-population",
            f"eval slr-population --set activation=erf {POINT} --at scale=1,offset=0.1 --json",
        ),
        case("sweep slr-population 2-D", f"{sweep} --over nu=1:2:2 --over L=2:4:3"),
    ]


def slr_flow() -> list[Case]:
    """Every activation spiked, some for max: one of each kind."""
    found = []
    for name in ACTIVATIONS:
        verb, at = ("solve", "--json") if name in ("linear", "erf") else ("eval", FLOW_AT)
        line = f"{verb} slr-flow --set activation={name} {POINT} {at}"
        found.append(case(f"{verb} slr-flow {name}", line, slow=name != "linear"))
    for name in ("softmax", "linear", "erf", "relu"):
        line = f"eval slr-flow --set activation={name} --set rule=max"
        point = KEYS if name == "softmax" else POINT
        found.append(case(f"eval slr-flow {name} max", f"{line} {point} {FLOW_AT}", slow=True))
    ridges = "--set lam_k=0.1 --set lam_v=0.2 --set gamma2=0.5 --set rho_k=1.2 --set rho_kv=0.1"
    offset = f"solve slr-flow --set activation=linear {POINT} {ridges}"
    return [*found, case("solve slr-flow ridges", f"{offset} --json", f"{offset} -o f.h5")]


def slr_erm() -> list[Case]:
    """Trained attention."""
    loose = "--accuracy 0.1 --json"
    found = []
    for name in ACTIVATIONS:
        if name != "erf_b0":
            line = f"solve slr-erm --set activation={name} {POINT} {RIDGE} {loose}"
            found.append(case(f"solve slr-erm {name}", line, slow=True))
    linear, point = "solve slr-erm --set activation=linear", f"{POINT} {RIDGE}"
    lengths = f"--set L=1:0.2,3:0.8 --set nu=1 --set Delta=0.1 {RIDGE}"
    tanh = "solve slr-erm --set activation=1+tanh(chi) --set offset=0.1 --set beta=1.5"
    tilted = "solve slr-erm --set activation=exp(chi/2) --set normalised=true"
    sweep = f"sweep slr-erm --set activation=linear {POINT} --set lam_k=1 --accuracy 0.1"
    best = f"{sweep} --over alpha=1:3:2 --optimise lam_v -o o.h5"
    phase = f"phase slr-erm {POINT} --set lam_v=1 --accuracy 0.1"
    return [
        *found,
        case("eval slr-erm", f"eval slr-erm {point} --at m_k=0.5"),
        case("solve slr-erm text", f"{linear} {point} --accuracy 0.1", slow=True),
        case(
            "solve slr-erm max", f"solve slr-erm --set rule=max {KEYS} {RIDGE} {loose}", slow=True
        ),
        case("solve slr-erm linear max", f"{linear} {MAX} {RIDGE} {loose}", slow=True),
        case("solve slr-erm expression", f"{tanh} {point} {loose}", slow=True),
        case("solve slr-erm normalised", f"{tilted} {point} {loose}", slow=True),
        case("solve slr-erm lengths", f"{linear} {lengths} {loose}", slow=True),
        case("solve slr-erm failed", f"{linear} {point} --max-steps 2 {loose}", slow=True),
        case(
            "sweep slr-erm 2-D",
            f"{sweep} --over alpha=1:3:2 --over lam_v=0.5:1:2 -o e.h5",
            slow=True,
        ),
        case("sweep slr-erm optimise", best, "info o.h5 --json", slow=True),
        case(
            "phase slr-erm",
            f"{phase} --over lam_k=0.5:2:2:log --grid 1:3:2 -o m.h5",
            slow=True,
        ),
    ]


def own_models() -> list[Case]:
    """Models of a user's own, as they were written."""
    sensing = "--set rho=0.1 --set Delta=1e-5"
    within = "--within 1e-6:1e-2 --accuracy 1e-4"
    classes = f"solve {CLASSES} --set alpha=2 --set lam=0.1"
    return [
        case("solve own sensing", f"solve {SENSING} {sensing} --set alpha=0.18 --json", slow=True),
        case("phase own sensing", f"phase {SENSING} {sensing} --accuracy 1e-4 --json", slow=True),
        case(
            "phase own sensing Delta",
            f"phase {SENSING} --control Delta --set rho=0.1 --set alpha=0.2 {within} --json",
            slow=True,
        ),
        case("solve own classification", f"{classes} --json"),
        case("solve own classification hinge", f"{classes} --set loss=hinge --json", slow=True),
        case("solve own classification square", f"{classes} --set loss=square --json", slow=True),
        case("eval own product", f"eval {PRODUCT} --set alpha=3 --at q=0.4 --json", slow=True),
    ]


# checks -------------------------------------------------------------------------------------------

MEASURED = "snr,q,q_error,mse\n2,0.62,0.01,0.61\n2,0.6,0.02,0.62\n1.5,0.4,0.03,0.8\n"
SUBSPACE = "check subspace --set theta=2 --set r=0.1 --d 20 --L 100 --trials 3 --steps 50 --seed 1"


def checks() -> list[Case]:
    """Theory against simulation, on given seeds."""
    few = "--D 20,30,40 --trials 2 --seed 3"
    erm = f"check slr-erm --set activation=linear {POINT} {RIDGE} {few}"
    bayes = f"check slr-bayes {POINT} --set alpha=3 {few}"
    found = [
        case(
            "check csv",
            "check spiked-wigner --csv runs.csv --json",
            "check spiked-wigner --csv runs.csv --start uninformed",
            files={"runs.csv": MEASURED},
        ),
        case("check subspace", f"{SUBSPACE} --json -o s.h5", slow=True),
        case(
            "check subspace explicit",
            f"{SUBSPACE} --tokens explicit --dtype float64 --batch 2 --json",
            slow=True,
        ),
        case("check slr-bayes", f"{bayes} --json -o b.h5", "export b.h5 -o b.csv", slow=True),
        case(
            "check slr-bayes informed",
            f"{bayes} --start informed --damping 0.3 --steps 20",
            slow=True,
        ),
        case("check slr-erm", f"{erm} --json -o e.h5", f"{erm} -o e.h5 --resume", slow=True),
        case(
            "check own classification",
            f"check {CLASSES} --set alpha=2 --set lam=0.1 {few} --json -o c.h5",
            slow=True,
        ),
        case(
            "check own sensing",
            f"check {SENSING} --set alpha=0.4 --set rho=0.2 --set Delta=0.01 {few} --json",
            slow=True,
        ),
    ]
    for method, start in (("bfgs", "random"), ("newton-cg", "informed"), ("gd", "random")):
        found.append(
            case(
                f"check slr-erm {method}",
                f"{erm} --method {method} --start {start} --json",
                slow=True,
            )
        )
    return found


ROUNDED = (
    1e-6,
    "sensitivity() makes its arrays before it switches 64 bits on, so that controls and overlaps "
    "are rounded to single precision; corrected, it gives the numbers of python sensitivity",
)


def calls() -> list[Case]:
    """What the command line lacks."""
    fast = ("own_starts", "newton", "failed_point", "evaluated", "branch", "as_dataset")
    fast = (*fast, "instability", "uneven_sweep", "sensitivity")
    long = ("own_nodes", "model_object", "thresholds_within", "curve", "diagram")
    long = (*long, "sensitivity_of_a_start", "sensitivity_of_an_objective")
    long = (*long, "optimise", "landscape")
    long = (*long, "landscape_of_message_passing", "recovery", "descent", "ends")
    rounded = called("sensitivity_as_called") | {"loose": {r"\[0\]\.result\.values\..*": ROUNDED}}
    slow = [called(name, slow=True) for name in long]
    return [*(called(name) for name in fast), rounded, *slow]


GROUPS = {
    "fast": lambda: [*shown(), *files(), *small_models(), *calls()],
    "slr-bayes": slr_bayes,
    "slr-population": slr_population,
    "slr-flow": slr_flow,
    "slr-erm": slr_erm,
    "own": lambda: [*own_models(), *checks()],
}


# writing ------------------------------------------------------------------------------------------


def command(*args: str) -> tuple[int, str, str]:
    """``replica ARGS`` in this process: (exit code, stdout, stderr)."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["replica", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def frozen(one: Case) -> Case:
    """The case with its result."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result = frozen_cases.run(one, command, Path(folder))
    seconds = round(time.process_time() - began, 1)
    print(f"{seconds:7.1f} s  {one['name']}", flush=True)
    return one | {"seconds": seconds, "result": result}


def write(done: dict[str, Case]) -> None:
    """The file, one line for each entry of a result, in the order of the groups."""
    order = [one["name"] for group in GROUPS.values() for one in group()]
    made = {"python": platform.python_version(), "machine": processor(), "versions": versions()}
    lines = [f'{{"made": {json.dumps(made)},', '"cases": [']
    for name in order:
        if name in done:
            lines.append(",\n".join(_entries(done[name])) + "},")
    lines[-1] = lines[-1].removesuffix(",")
    FILE.write_text("\n".join([*lines, "]}"]) + "\n", encoding="utf-8")


def _entries(one: Case) -> list[str]:
    """A case as lines: what it is, then its result, an entry a line."""
    about = json.dumps({k: v for k, v in one.items() if k != "result"})
    results = [json.dumps(entry, allow_nan=False) for entry in one["result"]]
    return [about.removesuffix("}"), '"result": [\n' + ",\n".join(results) + "]"]


def processor() -> str:
    """The processor's name, which decides the last digits."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def stored() -> dict[str, Case]:
    """The cases that the file has."""
    if not FILE.exists():
        return {}
    return {one["name"]: one for one in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}


def write_files() -> None:
    """The stored files, which later code must still read; not to be made again."""
    folder = DATA / "schema1"
    folder.mkdir(exist_ok=True)
    sweep = "sweep spiked-wigner --over snr=0.5:4:4 --quiet -o sweep.h5"
    curve = "phase perceptron-bayes --within 1.1:1.6 --accuracy 1e-3 --quiet --curve -o curve.h5"
    with contextlib.chdir(folder):
        for line in (sweep, curve):
            code, _, err = command(*line.split())
            print(line, code, err)


def main(names: list[str]) -> None:
    """All groups, each in a process of its own, or the cases of these names."""
    os.environ["COLUMNS"] = frozen_cases.COLUMNS
    if names == ["--files"]:
        return write_files()
    if not names:
        FILE.unlink(missing_ok=True)
        for group in GROUPS:
            subprocess.run([sys.executable, __file__, f"--group={group}"], check=True)
        return None
    group = names[0].removeprefix("--group=")
    cases = GROUPS[group]() if group in GROUPS else [c for make in GROUPS.values() for c in make()]
    for one in cases:
        if group in GROUPS or one["name"] in names:
            write(stored() | {one["name"]: frozen(one)})
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
