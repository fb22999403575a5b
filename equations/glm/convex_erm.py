r"""Ridge-regularised convex empirical risk in a generalized linear model, from a loss l(y, z) and a
teacher P(y|z).

Setting
    y ~ P(y|z*), z* = x.w*/sqrt(D), x ~ N(0, I_D), w*_i iid of unit variance; w minimises sum_mu
    l(y_mu, x_mu.w/sqrt(D)) + (lam/2)|w|^2.
Overlaps
    m = w.w*/D, q = |w|^2/D, V the susceptibility; per D.
Free energy
    e = extr (V q_hat - q V_hat)/2 + m m_hat - (m_hat^2 + q_hat)/(2(lam + V_hat)) + alpha E[M(omega,
    y; V)], to be minimised, M the Moreau envelope of the loss, omega = x.w/sqrt(D) ~ N(0, q) and y
    ~ E[P(y|z*)], z* ~ N(m omega/q, 1 - m^2/q).
Exact?
    The loss is convex, hence one solution, which is exact (replica symmetric).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

from ..calculus.averages import Average
from ..calculus.discontinuities import all_breakpoints, breakpoints, one_sided
from ..calculus.scalar_envelope import ProxSlope, ProxValue, ScalarEnvelope, curvature_of, slope_of
from ..calculus.special_functions import Rounded, plain
from ..model import Model, ModelError, Observable, joined
from ..quantities import Quantity, conjugate, quantity
from .channels import focus, gaussian_noises, jumps_of, log_probability
from .densities import Channel, Y, Z, mirrored, own, probabilities, require_certain
from .penalties import PENALTIES, Penalty, active_share, penalty_term

M = Quantity("m", "m", scaling="per D", meaning="overlap with the teacher, w.w*/D")
Q = Quantity("q", "q", 0, open_low=True, scaling="per D", meaning="squared norm, |w|^2/D")
V = Quantity("V", "V", 0, open_low=True, scaling="per D", meaning="susceptibility")
FIELD, NOISE = sp.Symbol("g", real=True), sp.Symbol("xi", real=True)
Mean = Callable[[Callable[[sp.Expr, sp.Expr], sp.Expr]], sp.Expr]
"""E[body(y, omega)] over the data, as an expression in m and q."""


def convex_erm(
    loss: Any,
    teacher: Channel,
    controls: tuple[Quantity, ...] = (),
    *,
    name: str = "convex-erm",
    title: str = "Convex empirical risk with ridge",
    risk: Any = None,
    penalty: str = "ridge",
    observables: Mapping[str, Any] | None = None,
    sources: tuple[str, ...] = (),
    **fields: Any,
) -> Model:
    """Empirical risk minimisation with a convex loss and ridge ``lam``; its equations are derived
    from the free energy.

    Parameters
    ----------
    loss : expression in y and z
        Convex in z.
    teacher : {value: probability}, Eq(y, f(z)) with finitely many values, or normal(y, z, Delta)
        Law of the labels; noise may be a mixture of Gaussians, a sum of weights times ``normal``.
    controls : tuple of Quantity
        What loss and teacher contain besides y and z; ``alpha`` and ``lam`` come by themselves.
    name, title, sources
        As in ``Model``.
    risk : expression in y and z, optional
        Its mean over new samples is the observable ``risk``; by default the loss.
    penalty : {"ridge", "l1", "elastic_net"}
        ``lam |w|^2/2``; ``lam |w|_1``; or ``lam (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2/2)``, with
        the further control ``l1_ratio``.
    observables : dict of name -> expression, optional
        Further ones, in the symbols of ``M``, ``Q``, ``V`` of this module and the controls.
    **fields
        Further fields of ``Model``.

    Returns
    -------
    Model
        With overlaps m, q, V.

    Raises
    ------
    ModelError
        The loss is not convex or does not contain z, there is no such penalty or no average over
        this teacher.
    """
    if penalty not in PENALTIES:
        raise ModelError(f"there is no penalty {penalty!r}: choose {', '.join(PENALTIES)}")
    loss, risk = own(loss, Y, Z), own(loss if risk is None else risk, Y, Z)
    mean = _data(teacher, (loss, risk))
    _check_loss(loss, teacher, all(map(_translated, (loss, risk))))
    given = {q.name: q for q in controls}
    alpha, cost = given.pop("alpha", quantity("alpha")), PENALTIES[penalty]
    strengths = [given.pop(q.name, q) for q in cost.controls]
    hats = {q.name: conjugate(q) for q in (M, Q, V)}
    m, q, v = (x.symbol for x in (M, Q, V))
    m_hat, q_hat, v_hat = (hats[n].symbol for n in ("m", "q", "V"))

    envelope = mean(lambda y, omega: ScalarEnvelope(Z, loss.subs(Y, y), omega, v))
    measured = _measured(loss, risk, mean, alpha.symbol, cost)
    return Model(
        name=name,
        title=title,
        overlaps=(M, Q, V),
        conjugates=tuple(hats.values()),
        controls=(alpha, *strengths, *given.values()),
        prior=penalty_term(cost, m_hat, q_hat, v_hat),
        coupling=(v * q_hat - q * v_hat) / 2 + m * m_hat,
        channel=alpha.symbol * envelope,
        best="smallest",
        observables=joined(measured, observables or {}),
        sources=sources,
        **_described(loss, teacher, alpha.symbol, cost) | fields,  # type: ignore[arg-type]
    )


def _described(loss: sp.Expr, teacher: Channel, alpha: sp.Symbol, cost: Penalty) -> dict[str, Any]:
    """The fields of the model that a user rarely gives."""
    return {
        "setting": (
            f"y ~ P(y|z*) = {teacher}, z* = x.w*/sqrt(D); w minimises sum_mu l(y_mu,"
            f" x_mu.w/sqrt(D)) + {cost.text},\nl(y, z) = {loss}, over alpha D samples."
        ),
        "starts": {"blind": {"m": 0.1, "q": 0.5, "V": 1 / (cost.square + 1 + alpha / 10)}},
        "notes": {
            "Exact?": "convex: one solution, exact",
            "prox": "the minimiser z of the envelope; prox' is its derivative in omega",
        },
    }


def _measured(
    loss: sp.Expr, risk: sp.Expr, mean: Mean, alpha: sp.Symbol, cost: Penalty
) -> dict[str, Observable]:
    """Test and training error, the minimised objective per D (of ridge; the free energy is the same
    for every penalty), the alignment with the teacher and the stability of replica symmetry.
    """
    training = mean(
        lambda y, omega: ProxValue(loss.subs(Y, y), Z, loss.subs(Y, y), omega, V.symbol)
    )
    tested = mean(lambda y, omega: risk.subs({Y: y, Z: omega}))

    def held(power: int) -> sp.Expr:
        return mean(lambda y, omega: (1 - ProxSlope(Z, loss.subs(Y, y), omega, V.symbol)) ** power)

    share = active_share(cost, alpha, V.symbol, held(1))
    energy = {
        "energy": Observable(alpha * training + cost.square * Q.symbol / 2, "e", role="energy")
    }
    return {
        "risk": Observable(tested, "R", role="risk"),
        "training_loss": Observable(training, r"\mathbb E[\ell]", role="training_loss"),
        **(energy if cost.absolute == 0 else {"active_share": Observable(share, r"\rho_w")}),
        "cosine": Observable(M.symbol / sp.sqrt(Q.symbol), r"m/\sqrt q"),
        "replicon": Observable(alpha * held(2) / share, role="replicon"),
    }


def _translated(expr: sp.Expr) -> bool:
    """Whether it depends on y - z alone."""
    return Y not in sp.expand(expr.subs(Z, Y - sp.Dummy(real=True))).free_symbols


def _data(teacher: Channel, losses: tuple[sp.Expr, ...]) -> Mean:
    """The mean over (y, omega), in standard variables, so that equations have first derivatives of
    the envelope alone.

    A loss may then have jumps in its second derivative (and, at fixed places, in its first) without
    harm to the linear response. If all losses are the same at (y, z) and (-y, -z), and so is the
    teacher, half of the labels are enough. Of losses of y - z only omega - y matters, which is one
    variable less.
    """
    m, q = M.symbol, Q.symbol
    omega, hidden = sp.sqrt(q) * FIELD, Rounded(1 - m**2 / q)
    table = probabilities(teacher)
    if table is not None:
        require_certain(table, sp.S.One)
        even = all(sp.expand(e.subs({Y: -Y, Z: -Z}, simultaneous=True) - e) == 0 for e in losses)
        even = even and all(
            -y in table and y != 0 and mirrored(p, table[-y]) for y, p in table.items()
        )
        kept = {y: p for y, p in table.items() if not even or y > 0}
        weights = {
            y: (sp.exp(log_probability(p, m * FIELD / sp.sqrt(q), hidden)), jumps_of(p))
            for y, p in kept.items()
        }

        def over_values(body: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> sp.Expr:
            return (1 + even) * sp.Add(
                *(
                    _average(weight * body(y, omega), jumps, hidden)
                    for y, (weight, jumps) in weights.items()
                )
            )

        return over_values
    noises = None if isinstance(teacher, sp.Eq) else gaussian_noises(own(teacher, Y, Z))
    if noises is None:
        raise ModelError(
            f"cannot average over the teacher {teacher}: write {{value: probability}}, Eq(y,"
            " sign(z)), normal(y, z, Delta) or a sum of weights times such, which add up to 1"
        )

    def over_difference(body: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> sp.Expr:
        # omega - y in place of omega, and 0 in place of y: kinks of the loss stay where they are.
        def at(noise: sp.Expr) -> sp.Expr:
            return body(sp.S.Zero, sp.sqrt(Rounded(1 + noise - 2 * m + q)) * FIELD)

        return sp.Add(*(weight * Average(at(noise), FIELD) for weight, noise in noises))

    def over_noise(body: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> sp.Expr:
        def label(noise: sp.Expr) -> sp.Expr:
            return m * FIELD / sp.sqrt(q) + sp.sqrt(hidden + noise) * NOISE

        inner = (weight * Average(body(label(noise), omega), NOISE) for weight, noise in noises)
        return Average(sp.Add(*inner), FIELD)

    return over_difference if all(map(_translated, losses)) else over_noise


def _average(body: sp.Expr, jumps: list[sp.Expr], hidden: sp.Expr) -> sp.Expr:
    """Over the standard field; nodes on the scale on which the label changes, unless there are
    kinks to be met exactly.
    """
    if not jumps or breakpoints(body, FIELD):
        return Average(body, FIELD)
    scale = sp.sqrt(Q.symbol) / M.symbol
    near = [
        entry * f
        for entry, f in zip(focus(jumps, hidden), [scale, sp.Abs(scale)] * len(jumps), strict=True)
    ]
    return Average(body, FIELD, 0, 1, *near)


def _check_loss(loss: sp.Expr, teacher: Channel, is_translated: bool) -> None:
    """Refuse a loss without z, one that is seen not to be convex, and one whose slope jumps at a
    place that moves with y, unless y - z is all that matters.
    """
    if Z not in loss.free_symbols:
        raise ModelError(f"the loss {loss} does not contain z: write l(y, z)")
    table = probabilities(teacher)
    values = (
        [sp.Rational(-3, 2), sp.Rational(1, 3), sp.Integer(2)] if table is None else list(table)
    )
    curvature = curvature_of(loss, Z)
    for y in values:
        for z in (sp.Rational(k, 7) for k in (-40, -15, -8, -3, 1, 4, 9, 17, 38)):
            bent = curvature.subs({Y: y, Z: z})
            bent = sp.N(plain(bent).subs({s: 1 for s in bent.free_symbols}))
            if bent.is_number and bent.is_real and bent < -1e-12:
                raise ModelError(
                    f"the loss {loss} is not convex in z: its second derivative is {sp.N(bent, 3)}"
                    f" at y = {y}, z = {z}"
                )
    if table is None and not is_translated:
        for place in all_breakpoints(loss, Z):
            below, above = (one_sided(slope_of(loss, Z), Z, place, side) for side in (-1, 1))
            if sp.simplify(above - below) != 0:
                raise ModelError(
                    f"the slope of the loss {loss} jumps at z = {place}: for continuous labels it"
                    " must be continuous (as Huber's is), or loss and risk functions of y - z"
                )
