r"""Output terms of generalized linear models: y depends on z = x.w/sqrt(d), of which omega is known
and V is not.

    Psi_out(V) = E_omega sum_y Z log Z,
    Z(y, omega) = E[P(y|z)],  z ~ N(omega, V),  omega ~ N(0, E z^2 - V)

per sample; the sum over y is an integral where the label is continuous. With omega as variable,
every term of its derivatives is as large as their sum for V -> 0 (with omega/sqrt(V) as variable
they would cancel to a fraction V). Nodes are placed on the scale sqrt(V).
"""

from __future__ import annotations

import sympy as sp

from ..calculus.averages import Average, LineIntegral
from ..calculus.gaussian import exponential_average
from ..calculus.special_functions import LogNdtr, Rounded, Softplus, Width, stabilise
from ..model import ModelError
from .densities import (
    Channel,
    Y,
    Z,
    deterministic,
    is_bent,
    mirrored,
    own,
    probabilities,
    require_certain,
    require_total,
    stable_logistic,
    steps,
)
from .pieces import (
    OMEGA,
    depends_on_difference,
    log_inside,
    log_sum,
    noise_term,
    planted_term,
    terms_of,
)

ROUNDING = 1e-12
"""Of a float that should be 1."""
NO_INTEGRAL = (
    "write P(y|z) with a Gaussian in y - z, or give support=(low, high), a range of y outside of"
    " which it is negligible"
)


def sign_output(variance: sp.Expr) -> sp.Expr:
    """Psi_out of y = sign(z) with E z^2 = 1: sum_y E[Z log Z] = 2 E[Phi(h) log Phi(h)], h =
    omega/sqrt(V).
    """
    width = Width(variance)
    log_z = LogNdtr(OMEGA / sp.sqrt(width))
    return 2 * Average(sp.exp(log_z) * log_z, OMEGA, 0, 1 - variance, 0, sp.sqrt(width))


def output_term(
    channel: Channel,
    variance: sp.Expr,
    second: sp.Expr,
    support: tuple[sp.Expr, sp.Expr] | None = None,
) -> sp.Expr:
    """Psi_out of a channel (see ``densities``), with the unknown part V = ``variance`` of z and E
    z^2 = ``second``.

    Parameters
    ----------
    channel : expression in y and z, {value: probability}, or Eq(y, f(z))
    variance, second : expressions
    support : (low, high), optional
        For a density without closed form: where the integral over y runs.

    Returns
    -------
    expression
    """
    law = OMEGA, 0, Rounded(second - variance)
    width = Width(variance)
    table = probabilities(channel)
    if table is not None:
        require_certain(table, sp.sympify(second))
        terms = (
            (times, log_probability(p, OMEGA, width), jumps_of(p))
            for p, times in _unlike(table).items()
        )
        return sp.Add(
            *(
                times * Average(sp.exp(log_z) * log_z, *law, *focus(jumps, width))
                for times, log_z, jumps in terms
            )
        )
    f = deterministic(channel)
    return (
        _continuous(own(channel, Y, Z), width, law, support)
        if f is None
        else _noiseless(f, width, law)
    )


def _unlike(table: dict[sp.Expr, sp.Expr]) -> dict[sp.Expr, int]:
    """The probabilities that are not mirror images of one another, each with how many have its
    average (omega is symmetric).
    """
    counts: dict[sp.Expr, int] = {}
    for p in table.values():
        twin = next((known for known in counts if mirrored(known, p)), p)
        counts[twin] = counts.get(twin, 0) + 1
    return counts


def focus(jumps: list[sp.Expr], width: sp.Expr) -> list[sp.Expr]:
    """Where nodes are concentrated: on the scale sqrt(V) around every jump."""
    return [entry for jump in jumps for entry in (jump, sp.sqrt(width))]


def jumps_of(probability: sp.Expr) -> list[sp.Expr]:
    """Where a probability that is constant between its jumps has them."""
    pieces = steps(probability)
    return [] if pieces is None else [p.high for p in pieces[:-1]]


def log_probability(probability: sp.Expr, mean: sp.Expr, width: sp.Expr) -> sp.Expr:
    """log E[P(z)], z ~ N(mean, width): closed for steps, for erf and erfc of what is linear in z;
    else the log of an average.
    """
    pieces = steps(probability)
    if pieces is not None:
        return log_sum(
            [
                sp.log(p.value) + log_inside(p.low, p.high, mean, sp.sqrt(width))
                for p in pieces
                if p.value != 0
            ]
        )
    closed = _error_functions(probability, mean, width)
    return (
        stabilise(sp.log(closed))
        if closed is not None
        # Where this underflows nothing is seen: Z log Z is zero to rounding, not 0 times infinity.
        else sp.log(Width(Average(stable_logistic(probability), Z, mean, width)))
    )


def _error_functions(probability: sp.Expr, mean: sp.Expr, width: sp.Expr) -> sp.Expr | None:
    """E of c + sum_i c_i erf(a_i z + b_i): erf((a m + b)/sqrt(1 + 2 a^2 V)); None for anything
    else.
    """
    total = sp.S.Zero
    for term in sp.Add.make_args(sp.expand_mul(probability)):
        factor, rest = term.as_independent(Z, as_Add=False)
        if rest == 1:
            total += factor
            continue
        if not isinstance(rest, sp.erf | sp.erfc):
            return None
        slope = sp.diff(rest.args[0], Z)
        if slope.has(Z):
            return None
        total += factor * rest.func(rest.args[0].subs(Z, mean) / sp.sqrt(1 + 2 * slope**2 * width))
    return total


# continuous labels -------------------------------------------------------------------------------


def _continuous(
    density: sp.Expr,
    width: sp.Expr,
    law: tuple[sp.Expr, ...],
    support: tuple[sp.Expr, sp.Expr] | None,
) -> sp.Expr:
    """Psi_out of a density P(y|z)."""
    if Y not in density.free_symbols:
        raise ModelError(
            f"the channel {density} does not contain y: write a density in y and z, {{value:"
            " probability}, or Eq(y, f(z))"
        )
    law_of_label = gaussian_law(density)
    if law_of_label is not None:
        gain, noise = law_of_label
        return -sp.log(2 * sp.pi * sp.E * (gain**2 * width.args[0] + noise)) / 2
    require_total(density, support)
    terms = terms_of(density)
    if terms is not None:
        closed = (
            noise_term(terms, width)
            if depends_on_difference(density)
            else planted_term(terms, width, law)
        )
        if closed is not None:
            return closed
    bent = next((e for e in sp.preorder_traversal(density) if is_bent(e)), None)
    if bent is not None:
        raise ModelError(
            f"the channel {density} jumps or bends in z, at {bent}: the density of a continuous"
            " label that does so must be, between its bends, a sum of exponentials of what is"
            " quadratic in z, and depend on y - z alone or be Gaussian in y"
        )
    if support is None:
        raise ModelError(f"no closed integral over y for the channel {density}: {NO_INTEGRAL}")
    factor, rest = density.as_independent(Z, as_Add=False)
    closed = (
        exponential_average(rest.args[0], Z, OMEGA, width) if isinstance(rest, sp.exp) else None
    )
    log_z = sp.log(factor) + (
        sp.log(Average(rest, Z, OMEGA, width)) if closed is None else sp.log(closed)
    )
    return Average(LineIntegral(sp.exp(log_z) * log_z, Y, *map(sp.sympify, support)), *law)


def gaussian_law(density: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """(gain, noise) of a density N(y; gain z, noise), None for another one."""
    exponent = sp.Add(*(f.args[0] for f in sp.Mul.make_args(density) if isinstance(f, sp.exp)))
    curvature, mixed = -exponent.diff(Y, 2), exponent.diff(Y, Z)
    if exponent == 0 or curvature.has(Y, Z) or curvature == 0 or mixed.has(Y, Z):
        return None
    noise = sp.simplify(1 / curvature)
    gain = sp.simplify(mixed * noise)
    wanted = sp.exp(-((Y - gain * Z) ** 2) / (2 * noise)) / sp.sqrt(2 * sp.pi * noise)
    return (gain, noise) if _is_one(density / wanted) else None


def gaussian_noises(density: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]] | None:
    """(weight, variance) of each part of a density sum_i w_i N(y; z, noise_i); None for another
    one, such as one whose weights do not add up to one.
    """
    found = []
    for term in sp.Add.make_args(sp.expand_mul(density)):
        weight, bell = sp.S.One, term
        if isinstance(term, sp.Mul):
            curve = next((f for f in term.args if isinstance(f, sp.exp)), sp.S.Zero)
            height = sp.sqrt(-curve.args[0].diff(Y, 2) / (2 * sp.pi)) if curve != 0 else sp.S.Zero
            weight, bell = sp.simplify(term / (height * curve)), height * curve
        law = gaussian_law(bell)
        if law is None or weight.has(Y, Z) or not _is_one(law[0]):
            return None
        found.append((weight, law[1]))
    return found if _is_one(sum(weight for weight, _ in found)) else None


def _is_one(expr: sp.Expr) -> bool:
    """Whether an expression is 1; for numbers that were given as floats, but for rounding."""
    simple = sp.simplify(expr)
    if simple.has(sp.Float) and simple.is_number:
        return bool(abs(simple - 1) < ROUNDING)
    return simple == 1


def _noiseless(f: sp.Expr, width: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
    """Psi_out of y = z, |z| or max(z, 0): densities of y relative to that of z."""
    entropy = -sp.log(2 * sp.pi * sp.E * width) / 2
    if f == Z:
        return entropy
    if f == sp.Abs(Z):  # y comes from z or from -z
        both = Average(Softplus(-2 * OMEGA * Z / width), Z, OMEGA, width)
        return entropy + Average(both, *law, 0, sp.sqrt(width))
    if f in (
        sp.Max(Z, 0),
        Z * sp.Heaviside(Z),
    ):  # y = 0 with probability 1/2; the mean of u phi(u) vanishes
        log_z = LogNdtr(OMEGA / sp.sqrt(width))
        return entropy / 2 + Average(sp.exp(log_z) * log_z, *law, 0, sp.sqrt(width))
    raise ModelError(
        f"no closed output for y = {f} without noise: there is y = z, |z|, Max(z, 0) and what is"
        " constant between jumps, or add noise"
    )
