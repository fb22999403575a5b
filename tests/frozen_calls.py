"""The cases of tests/data/frozen.json that the command line lacks: documented calls from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from frozen_values import dataset

import replica
from replica import NodeSizes, Settings

SMALL = {"L": 2, "nu": 1, "Delta": 0.1}
START = {"m_k": 0.3, "q_k": 1, "m_v": 0.2, "q_v": 1, "m_kv": 0.1, "m_vk": -0.1, "q_kv": 0.2}


# points -------------------------------------------------------------------------------------------


def own_starts() -> Any:
    how = Settings(damping=0.3, polish="none", tol=1e-8)
    starts = {"middle": {"q": 0.4}, "high": {"q": 0.9}}
    return replica.solve("spiked-wigner", snr=2, settings=how, starts=starts).to_dict()


def newton() -> Any:
    return replica.solve("spiked-wigner", snr=1.5, settings=Settings(polish="newton")).to_dict()


def own_nodes() -> Any:
    return replica.solve("perceptron-bayes", alpha=1.3, nodes=NodeSizes(subinterval=40)).to_dict()


def failed_point() -> Any:
    try:
        replica.solve("spiked-wigner", snr=2, settings=Settings(max_steps=2), throw=True)
    except replica.SolveError as error:
        return str(error)
    return "no error"


def evaluated() -> Any:
    return replica.evaluate("spiked-wigner", {"q": 0.3}, snr=2)


def branch() -> Any:
    solution = replica.solve("spiked-wigner", snr=2)
    reached = solution.branch("informed")
    return {
        "start": reached.start,
        "ok": reached.ok,
        "message": reached.message,
        "best": solution.best,
    }


def as_dataset() -> Any:
    found = replica.to_dataset(replica.solve("spiked-wigner", snr=2))
    tables = replica.to_tables(found)
    frames = {" ".join(dims): frame.to_dict("list") for dims, frame in tables.items()}
    return {"dataset": dataset(found), "tables": frames}


def instability() -> Any:
    return replica.onset("spiked-wigner", "snr", (0.5, 1.5))


def model_object() -> Any:
    """A model as an object, from its parts, by the names that ``replica.equations`` gives them."""
    eq = replica.equations
    noise = eq.quantity("Delta", open_low=True)
    model = eq.bayes_glm(eq.normal(eq.X), eq.normal(eq.Y, eq.Z, noise.symbol), (noise,))
    return replica.solve(model, alpha=1.5, Delta=0.2).to_dict()


def loaded() -> Any:
    """The stored files of schema 1."""
    return {name: dataset(replica.load(f"schema1/{name}.h5")) for name in ("sweep", "curve")}


# grids and thresholds -----------------------------------------------------------------------------


def uneven_sweep() -> Any:
    over = {"snr": [2.0, 0.5, 1.3]}
    return dataset(replica.sweep("spiked-wigner", over=over, warm="snr", progress=False))


def thresholds_within() -> Any:
    return replica.thresholds("perceptron-bayes", within=(1.1, 2.0), accuracy=1e-4).to_dict()


def curve() -> Any:
    return dataset(replica.curve("perceptron-bayes", within=(1.0, 2.0), accuracy=1e-4))


def diagram() -> Any:
    found = replica.phase_diagram(
        "frozen_models/compressed_sensing.py",
        over={"rho": [0.2, 0.1]},
        Delta=1e-5,
        within=(0.05, 0.5),
        accuracy=1e-4,
        tricritical=False,
        progress=False,
    )
    return dataset(found)


# derivatives and optima ---------------------------------------------------------------------------


def _sensitivity(solution: Any, **how: Any) -> Any:
    with jax.enable_x64(True):  # without it the controls are rounded to single precision
        return _single_sensitivity(solution, **how)


def _single_sensitivity(solution: Any, **how: Any) -> Any:
    found = replica.sensitivity(solution, **how)
    return {"values": found.values, "error": found.error, "status": found.status.value}


def sensitivity() -> Any:
    return _sensitivity(replica.solve("spiked-wigner", snr=2))


def sensitivity_as_called() -> Any:
    """The same in a session that has not switched 64 bits on."""
    return _single_sensitivity(replica.solve("spiked-wigner", snr=2))


def sensitivity_of_a_start() -> Any:
    solution = replica.solve("perceptron-bayes", alpha=1.3)
    return _sensitivity(solution, start="uninformed", controls=["alpha"])


def sensitivity_of_an_objective() -> Any:
    solution = replica.solve("slr-population", activation="erf_b0", **SMALL)
    return _sensitivity(solution, controls=["nu"])


def optimise() -> Any:
    found = replica.optimise(
        "slr-erm",
        ["lam_v"],
        settings=Settings(accuracy=0.1),
        activation="linear",
        alpha=2,
        lam_k=1,
        **SMALL,
    )
    names = ("at", "value", "error", "error_at", "gradient", "evaluations")
    numbers = {name: getattr(found, name) for name in names}
    return numbers | {"status": found.status.value, "solution": found.solution.to_dict()}


# beside the package's own face: what the notebooks use --------------------------------------------


def landscape() -> Any:
    from replica import landscape as reader

    theory = {"informed": (0.9, 0.9), "uninformed": (0.1, 0.1)}
    given = {"activation": "linear", "alpha": 2, "lam_k": 1, "lam_v": 1, **SMALL}
    found = reader.reached("gd", given, theory, sizes="20,30", trials=2, seed=3)
    return {"dataset": dataset(found), "counts": reader.counts(found, list(theory))}


def landscape_of_message_passing() -> Any:
    from replica import landscape as reader

    theory = {"informed": (0.9, 0.9), "uninformed": (0.1, 0.1)}
    given = {"rule": "max", "alpha": 2, **SMALL}
    found = reader.reached("message-passing", given, theory, sizes="20,30", trials=2, seed=3)
    return {"dataset": dataset(found), "counts": reader.counts(found, list(theory))}


def recovery() -> Any:
    from replica.dynamics import recovery as reader

    controls = {"theta": 2.0, "r": 0.1, "d": 50, "L": 500}
    flow = reader.trajectory([0.1, -0.2], [0.5, 1.0, 3.0], **controls)
    path = reader.mean_path([0.1, -0.2], [0.05, 0.04, 0.03], 2, **controls)
    return {
        "flow": {"values": flow.values, "error": flow.error},
        "path": {"rho": path.rho, "error": path.error},
        "time": float(reader.recovery_time(0.1, **controls).values),
        "floor": reader.noise_floor(2, **controls),
        "probability": reader.sign_probability(**controls),
        "mass": reader.attention_mass([0.0, 0.5], theta=2.0, r=0.1),
    }


def descent() -> Any:
    from replica.dynamics import descent as reader

    options = {"activation": "linear", **SMALL}
    return {
        "flow": dataset(reader.trajectory(START, [0.5, 2.0], **options)),
        "free": dataset(reader.descent(START, 4, 0.05, **options)),
        "sphere": dataset(reader.descent(START, 4, 0.05, surface="sphere", **options)),
    }


def ends() -> Any:
    from replica.dynamics import descent as reader

    found = reader.evidence(3, seed=2, activation="linear", **SMALL)
    classes = [e | {"status": e["status"].value} for e in reader.classes(found)]
    return {"dataset": dataset(found), "classes": classes}


CALLS: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (
        own_starts, newton, own_nodes, failed_point, evaluated, branch, as_dataset, instability,
        model_object, loaded, uneven_sweep, thresholds_within, curve, diagram, sensitivity,
        sensitivity_as_called, sensitivity_of_a_start, sensitivity_of_an_objective, optimise,
        landscape, landscape_of_message_passing, recovery, descent, ends,
    )
}  # fmt: skip
