"""Trained linear attention with names of its own: what slr-erm with activation=linear is."""

from sympy import Add, IndexedBase, KroneckerDelta, Sum, Symbol, sqrt

from equations import (
    AtProx,
    BasinChange,
    Criterion,
    EmpiricalRisk,
    ForceResponse,
    Model,
    MoreauEnvelope,
    Observable,
    ProxFailure,
    Quantity,
    SingleLocation,
    TeacherAverage,
    Weights,
    conjugate,
    quantity,
)

TOKEN, L = Symbol("l", integer=True, positive=True), quantity("L")
alpha, nu, Delta = quantity("alpha"), quantity("nu"), quantity("Delta")
noise = Symbol("xi_y", real=True)
TEACHER, XI = IndexedBase("chi_star"), IndexedBase("xi_a")
TEACHER_VALUE, XI_VALUE = IndexedBase("z_star"), IndexedBase("xi_b")
FIELD, VALUE = IndexedBase("chi"), IndexedBase("z")


def vector(a, what):
    """Overlap with the teacher, length, response and ridge of one trained vector."""
    return (
        Quantity(f"with_{a}", meaning=f"{what} on its teacher"),
        Quantity(f"size_{a}", low=0, meaning=f"squared length of the {what}"),
        Quantity(f"soft_{a}", low=0, open_low=True, role="susceptibility"),
        Quantity(f"ridge_{a}", low=0, open_low=True, meaning=f"ridge on the {what}"),
    )


def build():
    key, value = vector("a", "query"), vector("b", "read-out")
    m, q, v = (tuple(x[i].symbol for x in (key, value)) for i in range(3))
    omega = (
        m[0] * TEACHER[TOKEN] + sqrt(q[0] - m[0] ** 2) * XI[TOKEN],
        m[1] * TEACHER_VALUE[TOKEN] + sqrt(q[1] - m[1] ** 2) * XI_VALUE[TOKEN],
    )
    every = (TOKEN, 1, L.symbol)
    label = TEACHER_VALUE[1] + sqrt(Delta.symbol) * noise
    residual = label - Sum((1 + FIELD[TOKEN]) * VALUE[TOKEN], every)
    fields = [(FIELD, omega[0], v[0], "a"), (VALUE, omega[1], v[1], "b")]
    envelope = MoreauEnvelope(residual**2 / 2, TOKEN, L.symbol, fields)

    def mean(body):
        data = [TEACHER, TEACHER_VALUE, XI, XI_VALUE]
        return TeacherAverage(body, TOKEN, L.symbol, [noise], data, "spiked", nu.symbol)

    overlaps = (*key[:3], *value[:3])
    hats = {x.name: conjugate(x) for x in overlaps}
    prior, coupling = [], []
    for x in (key, value):
        m_hat, q_hat, v_hat = (hats[y.name].symbol for y in x[:3])
        prior.append(-(m_hat**2 / 2 + q_hat / 2) / (x[3].symbol + v_hat))
        coupling.append((x[2].symbol * q_hat - x[1].symbol * v_hat) / 2 + x[0].symbol * m_hat)
    weight = mean(Sum(KroneckerDelta(TOKEN, 1) * (1 + omega[0]), every))
    square = mean(Sum((1 + omega[0]) ** 2, every))
    risk = 1 + Delta.symbol - 2 * m[1] * weight + q[1] * square
    t = [[v[i] ** 2 * mean(ForceResponse(envelope, i, j)) for j in (0, 1)] for i in (0, 1)]
    root = sqrt((t[0][0] - t[1][1]) ** 2 + 4 * t[0][1] * t[1][0])
    stability = alpha.symbol * (t[0][0] + t[1][1] + root) / 2
    blind = {x.name: s for x, s in zip(overlaps, (0.05, 0.5, 0.4, 0.05, 0.5, 0.4), strict=True)}
    taught = {x.name: s for x, s in zip(overlaps, (1.0, 1.2, 0.4, 1.0, 1.2, 0.4), strict=True)}
    return Model(
        name="attention-by-other-names",
        title="Trained linear attention",
        setting="f(X) = sum_l (1 + chi_l) z_l, ridge on both vectors.",
        overlaps=overlaps,
        conjugates=tuple(hats.values()),
        controls=(alpha, L, nu, Delta, key[3], value[3]),
        prior=Add(*prior),
        coupling=Add(*coupling),
        channel=alpha.symbol * mean(envelope),
        best="smallest",
        observables={
            "test_error": Observable(risk, role="risk"),
            "fit": Observable(2 * mean(AtProx(envelope.loss, envelope)), role="training_loss"),
            "stability": Observable(stability, role="replicon"),
            "changes": mean(BasinChange(envelope)),
            "lost": Observable(mean(ProxFailure(envelope)), role="prox_failures"),
        },
        criteria=(Criterion("stability", "above", 1, "RS_UNSTABLE", when="finite"),),
        starts={"blind": blind, "taught": taught},
        sources=("slr-erm with other names",),
        accuracy=1e-2,
        theory=EmpiricalRisk(
            data=SingleLocation("spiked", nu.symbol, L.symbol),
            weights=(
                Weights("with_a", "size_a", "soft_a"),
                Weights("with_b", "size_b", "soft_b"),
            ),
        ),
    )
