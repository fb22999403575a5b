r"""Signal subspace recovery: what one attention query learns without labels.

Setting
    L tokens in dimension d: R = r L of them x_i = theta xi + z_i, the others x_i = z_i, with z_i ~
    N(0, I_d), |xi| = 1. A query q on the unit sphere attends with w = softmax(beta q.x_i); it
    ascends J(q) = E|f|^2, f = sum_i w_i x_i.
Overlaps
    rho = q.xi in [-1, 1]: alignment of the query with the signal.
Controls
    theta > 0 (signal strength), 0 < r < 1 (share of informative tokens), beta > 0 (inverse
    temperature, 1 by default); d and L, only for the finite-size terms.
Free energy
    R, L - R -> infinity: J(rho) = |f|^2 with f the ratio of two token averages, E[e^{beta q.x}
    x]/E[e^{beta q.x}]; J = beta^2 + 2 beta theta rho a + theta^2 a^2, a = r e^{beta theta rho}/(r
    e^{beta theta rho} + 1 - r). To be maximised.
Equations
    drift (1 - rho^2) J'(rho), J' = 2 beta theta a [1 + beta theta rho (1 - a) + theta^2 a (1 - a)].
Observables
    objective, objective_derivative, drift, drift_slope (its derivative: the rate at a fixed point),
    attention_mass a; with d and L also objective_finite = J + (d - 1) E[sum_i w_i^2] (leading in
    d/L) and its drift, and gradient_noise: the mean squared length of the gradient's part across q
    and xi, of one sequence, exact for d, L -> infinity at fixed d/L.
Exact?
    Exact in the limits stated. The boundary of the region where -xi attracts is in closed form
    (``boundary_odds``).
Accuracy
    Closed forms: rounding.
Limits
    beta theta <= 1: only +xi attracts, at every r. rho = 0: J = beta^2 + theta^2 r^2.
Source
    theory.md section 8; L. V. Truong, Asymptotic Signal Subspace Recovery in Softmax Attention
    Models (2026), beta = 1 there.
"""

from __future__ import annotations

import sympy as sp

from ..calculus.averages import Average
from ..calculus.gaussian import close
from ..calculus.special_functions import Logistic
from ..model import Model, Observable
from ..quantities import Quantity, quantity
from ..theory import SphereFlow

RHO = Quantity("rho", r"\rho", -1, 1, meaning="alignment of the query with the signal, q.xi")
STRENGTH = Quantity("theta", r"\theta", 0, open_low=True, meaning="signal strength", information=1)
SHARE = Quantity(
    "r",
    "r",
    0,
    1,
    open_low=True,
    open_high=True,
    meaning="share of informative tokens, R/L",
    information=1,
)
INVERSE_TEMPERATURE = Quantity(
    "beta", r"\beta", 0, open_low=True, meaning="inverse temperature of the attention", default=1.0
)
DIMENSION = Quantity(
    "d",
    "d",
    2,
    integer=True,
    meaning="dimension of a token; with L it switches on the finite-size terms",
    optional=True,
)
TOKENS = quantity(
    "L", optional=True, meaning="tokens per sequence; with d it switches on the finite-size terms"
)

FIELD, ACROSS = sp.Symbol("h", real=True), sp.Symbol("u", real=True)
"""Coordinates of a token along the query, h = q.x, and across it in the plane of q and xi."""
MASS, ODDS = sp.Symbol("a", positive=True), sp.Symbol("odds", positive=True)
_BOLTZMANN = sp.Symbol("E", positive=True)

rho, theta, r, beta, d, L = (
    q.symbol for q in (RHO, STRENGTH, SHARE, INVERSE_TEMPERATURE, DIMENSION, TOKENS)
)


def informative(body: sp.Expr) -> sp.Expr:
    """Average over an informative token, whose mean is theta xi."""
    return Average(Average(body, ACROSS, theta * sp.sqrt(1 - rho**2), 1), FIELD, theta * rho, 1)


def tokens(body: sp.Expr) -> sp.Expr:
    """Average over all tokens."""
    return r * informative(body) + (1 - r) * Average(Average(body, ACROSS, 0, 1), FIELD, 0, 1)


def attended(body: sp.Expr, power: int = 1) -> sp.Expr:
    """L^{power - 1} E[sum_i w_i^power body_i] for L -> infinity: weights e^{beta h} over their
    mean.
    """
    weight = sp.exp(beta * FIELD)
    return tokens(weight**power * body) / tokens(weight) ** power


def attention_mass() -> sp.Expr:
    """a(rho): the attention on informative tokens."""
    return r * informative(sp.exp(beta * FIELD)) / tokens(sp.exp(beta * FIELD))


def in_mass(expr: sp.Expr) -> sp.Expr:
    """Close every average and write what is left in the attention mass a alone: e^{beta theta rho}
    = a (1 - r)/(r (1 - a)).
    """
    closed = sp.expand(close(expr), power_exp=True).subs(sp.exp(beta * theta * rho), _BOLTZMANN)
    return sp.factor(sp.cancel(closed.subs(_BOLTZMANN, MASS * (1 - r) / (r * (1 - MASS)))))


def with_mass(expr: sp.Expr) -> sp.Expr:
    """Put a(rho) back, as a logistic function: nothing overflows."""
    return expr.xreplace({MASS: Logistic(beta * theta * rho + sp.log(r) - sp.log(1 - r))})


def closed(expr: sp.Expr) -> sp.Expr:
    """Closed form of an expression in Gaussian averages over tokens; others stay as they are."""
    return with_mass(sp.expand(in_mass(expr))) if expr.has(Average) else expr


def objective() -> sp.Expr:
    """J(rho) = |f|^2: f along the query, and across it in the plane of query and signal."""
    return attended(FIELD) ** 2 + attended(ACROSS) ** 2


def crowding() -> sp.Expr:
    """T(rho) = L E[sum_i w_i^2]: the variance of f in each of the d - 1 directions across the query
    is T/L.
    """
    return attended(sp.S.One, 2)


def gradient_noise(finite: bool = False) -> sp.Expr:
    """E|g_perp|^2, g_perp the part across q and xi of g = 2 beta sum_i w_i s_i x_i, s_i = x_i.f -
    |f|^2, in terms of the mass a.

    With delta = (d - 1)/L, v = L w and f_perp = Z^T w, |f_perp|^2 = phi = delta T, and Z Gaussian
    given f_perp,

        s_i = (h_i f_h + u_i f_u - J) + delta v_i - phi + sqrt(phi) eta_i,      eta_i standard:
        |g_perp|^2/(4 beta^2) = phi (<v^2 s>/T + 1)^2 + delta (<v^2 s^2> - <v^2 s>^2/T + phi T),
        <> over tokens, s without eta,

    the first term along f_perp, the second across it, where Z^T w vanishes: only the part of w s
    across w counts. Exact for d, L -> infinity at fixed delta. ``finite`` corrects each <v^n ...>
    to first order in 1/L for the normalisation of w, E[(sum_i e_i^n)/(sum_i e_i)^n] = L^{1 - n}
    <v^n> (1 - n (<v^{n+1}>/<v^n> - 1)/L + n (n + 1)/2 (<v^2> - 1)/L); it tells how far L is from
    infinity, as <v^4> grows like e^{6 beta^2}.
    """
    f_h, f_u, delta = in_mass(attended(FIELD)), in_mass(attended(ACROSS)), (d - 1) / L
    plane = FIELD * f_h + ACROSS * f_u - in_mass(objective())
    power = {n: in_mass(attended(sp.S.One, n)) for n in range(2, 6)} if finite else {}

    def factor(n: int) -> sp.Expr:
        return (
            1 / (1 + (n * (power[n + 1] / power[n] - 1) - n * (n + 1) * (power[2] - 1) / 2) / L)
            if finite
            else sp.S.One
        )

    moment = {
        (n, k): factor(n) * in_mass(attended(sp.expand(plane**k), n))
        for n, k in ((2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (4, 0))
    }
    spread = moment[2, 0]
    phi = delta * spread
    first = moment[2, 1] + delta * moment[3, 0] - phi * spread
    second = (
        moment[2, 2]
        + 2 * delta * moment[3, 1]
        - 2 * phi * moment[2, 1]
        + delta**2 * moment[4, 0]
        - 2 * delta * phi * moment[3, 0]
        + phi**2 * spread
    )
    return (
        4
        * beta**2
        * (phi * (first / spread + 1) ** 2 + delta * (second - first**2 / spread + phi * spread))
    )


def mass_slope(term: sp.Expr) -> sp.Expr:
    """d term/d rho in terms of a, with da/drho = beta theta a (1 - a) derived from the averages."""
    reduced = in_mass(term)
    return sp.factor(reduced.diff(rho) + reduced.diff(MASS) * in_mass(attention_mass().diff(rho)))


def _at_opposite(term: sp.Expr) -> sp.Expr:
    """(d term/d rho)/(2 beta theta a) at rho = -1, in the odds a/(1 - a)."""
    share = mass_slope(term) / (2 * beta * theta * MASS)
    return sp.factor(sp.cancel(share.subs(rho, -1).subs(MASS, ODDS / (1 + ODDS))))


def boundary_share() -> sp.Expr:
    """r below which -xi attracts too, at L = infinity and beta theta > 1: the odds a/(1 - a) at rho
    = -1 where J'(-1) = 0.
    """
    roots = sp.solve(sp.numer(sp.together(_at_opposite(objective()))), ODDS)
    (positive,) = [
        root for root in roots if root.subs({beta: 1, theta: 2}) > 0
    ]  # the product of the two is 1 - beta theta < 0
    return positive / (positive + sp.exp(-beta * theta))


def boundary_crowding() -> sp.Expr:
    """(d - 1)/L above which -xi attracts too, in the odds at rho = -1: -J'(-1)/T'(-1); negative
    where it attracts at L = infinity already.
    """
    return sp.factor(-_at_opposite(objective()) / _at_opposite(crowding()))


OPPOSITE_ODDS = r * sp.exp(-beta * theta) / (1 - r)
"""a/(1 - a) at rho = -1."""


LISTED = (
    "Signal subspace recovery by one attention query, without labels",
    (STRENGTH, SHARE, INVERSE_TEMPERATURE, DIMENSION, TOKENS),
)


def build() -> Model:
    """The model."""
    slope, crowding_slope = with_mass(mass_slope(objective())), with_mass(mass_slope(crowding()))
    observables = {
        "objective": Observable(objective(), "J"),
        "objective_derivative": Observable(slope, "J'"),
        "drift": Observable((1 - rho**2) * slope, r"\dot\rho"),
        "attention_mass": Observable(attention_mass(), "a"),
        "objective_finite": Observable(objective() + (d - 1) / L * crowding(), "J_{d/L}"),
        "drift_finite": Observable((1 - rho**2) * (slope + (d - 1) / L * crowding_slope)),
    }
    return Model(
        name="subspace",
        title=LISTED[0],
        setting=(
            "R = r L of L tokens are x_i = theta xi + z_i, the others x_i = z_i, z_i ~ N(0, I_d),"
            " |xi| = 1; w = softmax(beta q.x_i).\nA query q on the sphere ascends J(q) = E|sum_i"
            " w_i x_i|^2; R, L - R -> infinity."
        ),
        overlaps=(RHO,),
        controls=LISTED[1],
        channel=objective(),
        observables=observables,
        starts={"-xi": {"rho": -1.0}, "+xi": {"rho": 1.0}},
        theory=SphereFlow(
            drifts=(("drift_finite", "objective_finite"), ("drift", "objective")),
            rewrite=closed,
        ),
        notes={
            "Closed form": (
                f"J = {in_mass(objective())}, J' = {mass_slope(objective())}, a = attention_mass;\n"
                f"with d and L, J + (d - 1)/L * T, T = {in_mass(crowding())}"
            ),
            "Flow": (
                "drho/dt = (1 - rho^2) J' (with d and L: drift_finite); t = sum of the steps eta_k"
                " of stochastic ascent"
            ),
            "-xi attracts too": (
                f"if beta*theta > 1 and r < {boundary_share()};\n"
                f"with d and L, if (d - 1)/L > {boundary_crowding()}, odds = {OPPOSITE_ODDS}"
            ),
            "Exact?": "R, L - R -> infinity; finite-size terms: leading in d/L",
            "Accuracy": "closed forms",
            "Limits": "beta theta <= 1: only +xi attracts, at every r",
        },
        sources=(
            (
                "L. V. Truong, Asymptotic Signal Subspace Recovery in Softmax Attention Models"
                " (2026); beta = 1 there"
            ),
            "theory.md section 8 (derived for this project)",
        ),
    )


OPTIONS: dict[str, tuple[str, ...]] = {}
