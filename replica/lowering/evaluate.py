"""Evaluation of an expression tree on arrays: one axis per bound variable.

A value has one dimension per bound variable of the expression, of size 1 where it does not depend
on it. Equal subexpressions are evaluated once, and those that do not depend on the unknowns once
per solve. A product under an integral is contracted as a matrix product where its factors live on
different axes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from equations.calculus.averages import (
    Average,
    Below,
    Bound,
    LineIntegral,
    MellinIntegral,
    SampleAverage,
)
from equations.calculus.discontinuities import breakpoints, samples
from equations.calculus.scalar_envelope import ProxSlope, ProxValue, curvature_of, slope_of
from equations.calculus.special_functions import LogSumExp
from equations.slr.planted_average import PlantedAverage, Slope
from solvers import quadrature, scalar_prox

from ..errors import LoweringError
from . import integration, planted
from .functions import FUNCTIONS
from .integration import matmul
from .node_sizes import NodeSizes

Values = Mapping[sp.Symbol, Any]


class Evaluation:
    """One evaluation at given unknowns and controls."""

    def __init__(
        self,
        axes: dict[Any, int],
        sizes: NodeSizes,
        unknowns: Sequence[sp.Symbol],
        x: jax.Array,
        controls: Values,
        shared: dict[Any, Any],
        write: bool,
        groups: planted.Groups | None = None,
    ) -> None:
        self.axes, self.sizes, self.ndim, self.groups = axes, sizes, len(axes), groups or {}
        self.cut = quadrature.CUT * self.sizes.range_factor
        self.env: dict[Any, Any] = dict(controls)
        self.env.update({symbol: x[i] for i, symbol in enumerate(unknowns)})
        self.unknowns = set(unknowns)
        # Bound variables in scope: variable -> (identity of its node set, whether that depends on
        # the unknowns).
        self.scope: dict[Any, tuple[Any, bool]] = {}
        self.memo: dict[Any, Any] = {}
        self.shared, self.write = shared, write
        self._free: dict[Any, frozenset[Any]] = {}

    def scalar(self, expr: sp.Expr) -> jax.Array:
        value = jnp.asarray(self.value(expr), dtype=jnp.result_type(float))
        return value.reshape(()) if value.size == 1 else value

    def value(self, expr: sp.Basic) -> Any:
        free = self._free_symbols(expr)
        scope = tuple((v, self.scope[v][0]) for v in self.axes if v in free and v in self.scope)
        varies = bool(free & self.unknowns) or any(self.scope[v][1] for v, _ in scope)
        key = (expr, scope)
        if not varies and key in self.shared:
            return self.shared[key]
        if key not in self.memo:
            self.memo[key] = self._evaluate(expr)
            if self.write and not varies:
                self.shared[key] = self.memo[key]
        return self.memo[key]

    def _free_symbols(self, expr: sp.Basic) -> frozenset[Any]:
        if expr not in self._free:
            self._free[expr] = frozenset(expr.free_symbols)
        return self._free[expr]

    def _evaluate(self, e: Any) -> Any:
        if isinstance(e, sp.Symbol | sp.Indexed):
            return self.env[e]
        if e is sp.I:
            return 1j
        if e in (sp.true, sp.false):
            return bool(e)
        if isinstance(e, sp.Integer):
            return float(int(e))
        if isinstance(e, sp.Number | sp.NumberSymbol):
            return float(e)
        if isinstance(e, sp.Add):
            return self._sum(e)
        if isinstance(e, sp.Mul):
            return self._product(e)
        if isinstance(e, sp.Pow):
            return self._power(e)
        if isinstance(e, sp.Piecewise):
            return self._piecewise(e)
        if isinstance(e, Average):
            return self._average(e)
        if isinstance(e, LineIntegral):
            return self._line(e)
        if isinstance(e, MellinIntegral):
            return self._mellin(e)
        if isinstance(e, SampleAverage):
            return self._sample(e)
        if isinstance(e, PlantedAverage | Slope):
            return self._planted(e)
        if isinstance(e, ProxValue):
            return self._prox(e)
        if isinstance(e, LogSumExp):
            return self._over_tokens(
                e.args[1],
                e.args[2],
                lambda: jax.scipy.special.logsumexp(
                    self.value(e.args[0]), axis=self.axes[e.args[1]], keepdims=True
                ),
            )
        if isinstance(e, sp.Sum):
            return self._indexed_sum(e)
        if isinstance(e, sp.log):
            return self._log(e.args[0])
        if isinstance(e, Below):
            return self._below(*e.args)
        return FUNCTIONS[e.func](*(self.value(a) for a in e.args))

    # arithmetic -----------------------------------------------------------------------------------

    def _sum(self, e: sp.Add) -> Any:
        exponentials = [a for a in e.args if isinstance(a, sp.exp)]
        if len(e.args) == 2 and -1 in e.args and exponentials:
            return jnp.expm1(self.value(exponentials[0].args[0]))
        if (
            len(e.args) == 2
            and 1 in e.args
            and isinstance(e - 1, sp.Mul)
            and isinstance(1 - e, sp.exp)
        ):
            return -jnp.expm1(self.value((1 - e).args[0]))
        total = self.value(e.args[0])
        for term in e.args[1:]:
            total = total + self.value(term)
        return total

    def _product(self, e: sp.Mul) -> Any:
        product = self.value(e.args[0])
        for factor in e.args[1:]:
            product = product * self.value(factor)
        return product

    def _power(self, e: sp.Pow) -> Any:
        base, exponent = e.args
        if isinstance(exponent, sp.Integer):
            n = int(exponent)
            return self.value(base) ** n if n > 0 else 1 / self.value(base) ** (-n)
        if isinstance(exponent, sp.Rational) and exponent.q == 2:
            root = jnp.sqrt(self.value(base))
            n = int(exponent.p)
            return root**n if n > 0 else 1 / root ** (-n)
        return jnp.power(self.value(base), self.value(exponent))

    def _log(self, argument: sp.Expr) -> Any:
        if isinstance(argument, sp.Add) and sp.S.One in argument.args:
            return jnp.log1p(self.value(argument - 1))
        return jnp.log(self.value(argument))

    def _piecewise(self, e: sp.Piecewise) -> Any:
        *branches, last = e.args
        value = self.value(last.args[0])
        for branch in reversed(branches):
            value = jnp.where(self.value(branch.args[1]), self.value(branch.args[0]), value)
        return value

    # integrals ------------------------------------------------------------------------------------

    def _along(self, variable: Any, points: jax.Array) -> jax.Array:
        """A vector laid along the axis of a bound variable."""
        shape = [1] * self.ndim
        shape[self.axes[variable]] = -1
        return jnp.asarray(points).reshape(shape)

    def _under(
        self, variable: Any, points: Any, identity: Any, varies: bool, compute: Callable[[], Any]
    ) -> Any:
        """``compute()`` with ``variable`` bound to ``points``."""
        if variable in self.scope:
            raise LoweringError(
                f"the variable {variable} is bound twice in nested integrals: rename one of them"
            )
        outside = self.env.get(variable)  # an unknown or control of the same name, hidden in here
        self.env[variable], self.scope[variable] = points, (identity, varies)
        try:
            return compute()
        finally:
            del self.scope[variable]
            self.env[variable] = outside

    def _identity(self, node: Bound, roots: tuple[Any, ...] = (), *rest: Any) -> tuple[Any, bool]:
        """What the node set of an integral depends on: its parameters, its kinks and the variables
        they see.
        """
        free = frozenset().union(*(self._free_symbols(p) for p in (*node.parameters, *roots)))
        scope = tuple((v, self.scope[v][0]) for v in self.axes if v in free and v in self.scope)
        varies = bool(free & self.unknowns) or any(self.scope[v][1] for v, _ in scope)
        return (type(node).__name__, node.parameters, roots, rest, scope), varies

    def _average(self, e: Average) -> Any:
        x, mean, deviation = e.variable, self.value(e.mean), jnp.sqrt(self.value(e.variance))
        roots = breakpoints(e.body, x)
        even = (
            not roots and not e.localised and e.mean.is_zero and e.body.xreplace({x: -x}) == e.body
        )
        along = partial(self._along, x)
        if len(e.localised) > 2:
            points, weights = integration.foci(
                along,
                self.axes[x],
                self.sizes,
                mean,
                deviation,
                [self.value(f) for f in e.localised],
            )
        elif e.localised:
            points, weights = integration.localised(
                along, self.sizes, mean, deviation, *(self.value(f) for f in e.localised)
            )
        elif roots:
            points, weights = integration.panels(
                along, self.axes[x], self.sizes, mean, deviation, [self.value(r) for r in roots]
            )
        else:
            nodes = quadrature.trapezoid_gaussian(self.sizes.gaussian, bool(even), self.cut)
            points, weights = (
                mean + deviation * self._along(x, nodes.points),
                self._along(x, nodes.weights),
            )
        identity, varies = self._identity(e, tuple(roots), bool(even))
        return self._under(x, points, identity, varies, lambda: self._contract(e.body, x, weights))

    def _below(self, lower: Any, upper: Any) -> Any:
        shape = [1] * self.ndim
        rows, columns = self.axes[upper], self.axes[lower]
        matrix = quadrature.below(self.sizes.gaussian)
        shape[rows], shape[columns] = matrix.shape
        return jnp.asarray(matrix if rows < columns else matrix.T).reshape(shape)

    def _line(self, e: LineIntegral) -> Any:
        low, high = (self.value(p) for p in e.parameters)
        margin = (self.sizes.range_factor - 1) * (high - low) / 2
        low, high = low - margin, high + margin
        nodes = quadrature.unit_trapezoid(self.sizes.line)
        points = low + (high - low) * self._along(e.variable, nodes.points)
        weights = (high - low) * self._along(e.variable, nodes.weights)
        return self._under(
            e.variable,
            points,
            *self._identity(e),
            lambda: self._contract(e.body, e.variable, weights),
        )

    def _mellin(self, e: MellinIntegral) -> Any:
        contour, period = (self.value(p) for p in e.parameters)
        z, weights = quadrature.mellin(
            self.sizes.mellin, contour, self.sizes.range_factor * jnp.reshape(period, ())
        )
        points = self._along(e.variable, z)
        weights = self._along(e.variable, weights)
        return self._under(
            e.variable,
            points,
            *self._identity(e),
            lambda: self._contract(e.body, e.variable, weights, split_exp=True),
        )

    def _contract(self, body: sp.Expr, x: Any, weights: Any, split_exp: bool = False) -> Any:
        """sum_x weights * body, as matrix products where the factors of a term live on different
        axes.

        ``split_exp`` also factors exp(a(x, s) + b(x, y)); safe in Mellin integrals, whose factors
        are moments E[A^{-z}], bounded by their value at real z. The result is real.
        """
        axis = self.axes[x]
        groups: dict[sp.Expr, list[sp.Expr]] = {}
        for term in sp.Add.make_args(body):
            left, right = self._split(term, x, split_exp)
            groups.setdefault(left, []).append(right)
        total: Any = 0.0
        for left, rights in groups.items():
            right = self.value(sp.Add(*rights)) * weights
            if left == 1:
                part = jnp.sum(
                    jnp.real(
                        jnp.broadcast_to(right, jnp.broadcast_shapes(right.shape, weights.shape))
                    ),
                    axis=axis,
                    keepdims=True,
                )
            else:
                part = matmul(self.value(left), right, axis)
            total = total + part
        return total

    def _split(self, term: sp.Expr, x: Any, split_exp: bool) -> tuple[sp.Expr, sp.Expr]:
        """term = left * right with the most widely shared factor set in ``left`` (1 if nothing is
        gained).
        """
        by_axes: dict[frozenset[Any], sp.Expr] = {}
        for factor in sp.Mul.make_args(term):
            parts = [factor]
            if split_exp and isinstance(factor, sp.exp):
                parts = [sp.exp(a) for a in sp.Add.make_args(factor.args[0])]
            for part in parts:
                where = frozenset(v for v in self._free_symbols(part) if v in self.scope)
                by_axes[where] = by_axes.get(where, sp.S.One) * part
        wide = [where for where in by_axes if x in where and len(where) > 1]
        if len(wide) != 2:
            return sp.S.One, term
        # Keep in ``left`` the factor that is the same in most terms: the one that does not see the
        # unknowns.
        wide.sort(key=lambda where: bool(self._free_symbols(by_axes[where]) & self.unknowns))
        left = by_axes.pop(wide[0])
        return left, sp.Mul(*by_axes.values())

    # minimisers -----------------------------------------------------------------------------------

    def _prox(self, e: ProxValue) -> Any:
        """A number at the minimiser of an envelope; the minimiser itself is found once for all that
        share it.
        """
        z, centre, width = e.variable, self.value(e.centre), self.value(e.width)
        first, second = slope_of(e.loss, e.variable), curvature_of(e.loss, e.variable)

        def derivatives(points: jax.Array) -> tuple[jax.Array, jax.Array]:
            trial = copy.copy(self)  # traced inside a loop: nothing of it may be remembered here
            trial.env, trial.memo, trial.shared, trial.scope, trial.write = (
                self.env | {z: points},
                {},
                {},
                dict(self.scope),
                False,
            )
            return trial._under(
                z, points, ("trial",), True, lambda: (trial.value(first), trial.value(second))
            )

        if e.body == z:
            shapes = jax.eval_shape(lambda: derivatives(centre + 0 * width)[0] + centre + width)
            return scalar_prox.minimiser(derivatives, jnp.broadcast_to(centre, shapes.shape), width)
        points = self.value(e.minimiser)
        if isinstance(e, ProxSlope):
            return scalar_prox.slope(derivatives, points, centre, width)
        return self._under(z, points, e.minimiser, True, lambda: self.value(e.body))

    # tokens and samples ---------------------------------------------------------------------------

    def _over_tokens(self, index: Any, count: Any, compute: Callable[[], Any]) -> Any:
        size = self.sizes.tokens if self.sizes.tokens and not count.is_Integer else count
        if not isinstance(size, int | sp.Integer):
            raise LoweringError(
                f"the indexed sum over {index} = 1..{count} needs a number for {count}: it is an"
                " array size"
            )
        identity = ("tokens", int(size))
        if (
            index in self.scope and self.scope[index][0] == identity
        ):  # already laid out by a sample average or an outer sum
            return compute()
        return self._under(
            index,
            self._along(index, jnp.arange(1, int(size) + 1, dtype=float)),
            identity,
            False,
            compute,
        )

    def _indexed_sum(self, e: sp.Sum) -> Any:
        if len(e.limits) != 1 or e.limits[0][1] != 1:
            raise LoweringError(f"no lowering for {e}: indexed sums run over one index from 1")
        index, _, count = e.limits[0]

        def total() -> Any:
            body, points = self.value(e.function), self.env[index]
            return jnp.sum(
                jnp.broadcast_to(body, jnp.broadcast_shapes(jnp.shape(body), points.shape)),
                axis=self.axes[index],
                keepdims=True,
            )

        return self._over_tokens(index, count, total)

    def _sample(self, e: SampleAverage) -> Any:
        """Mean over the scrambled Sobol points; the scramble in use is the control-like symbol
        ``SCRAMBLE``.
        """
        common, bases = e.parameters[1], e.parameters[2]
        tokens, sample = self.sizes.tokens, samples(e)
        if tokens is None:
            raise LoweringError("the sampled route needs the number of tokens in its rule")
        dims = len(common) + tokens * len(bases)
        sets = quadrature.sobol_gaussian(
            dims, self.sizes.log2_samples, self.sizes.scrambles, self.sizes.seed
        )
        points = jnp.asarray(sets)[jnp.asarray(self.env[SCRAMBLE], dtype=int)]

        def lay(columns: jax.Array, token_axis: bool) -> jax.Array:
            shape = [1] * self.ndim
            shape[self.axes[sample]] = columns.shape[0]
            if token_axis:
                shape[self.axes[e.variable]] = tokens
            order = (
                columns
                if not token_axis or self.axes[sample] < self.axes[e.variable]
                else columns.T
            )
            return order.reshape(shape)

        for i, symbol in enumerate(common):
            self.env[symbol] = lay(points[:, i], False)
        first: dict[Any, Any] = {}
        for b, base in enumerate(bases):
            block = points[:, len(common) + b * tokens : len(common) + (b + 1) * tokens]
            self.env[sp.Indexed(base, e.variable)] = lay(block, True)
            first[sp.Indexed(base, sp.Integer(1))] = lay(block[:, 0], False)
        self.env.update(first)
        index_points = self._along(e.variable, jnp.arange(1, tokens + 1, dtype=float))

        def mean() -> Any:
            return jnp.mean(self.value(e.body), axis=self.axes[sample], keepdims=True)

        inner = lambda: self._under(e.variable, index_points, ("tokens", tokens), False, mean)  # noqa: E731
        return self._under(
            sample, self._along(sample, jnp.arange(points.shape[0])), ("samples",), True, inner
        )

    def _planted(self, e: PlantedAverage | Slope) -> Any:
        """All averages of one law, and their slopes, at once: they share the samples."""
        law = planted.law_of(e)
        nodes, variables = self.groups[law]

        def at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
            moved = copy.copy(self)
            moved.env = self.env | {symbol: t[i] for i, symbol in enumerate(variables)}
            moved.memo, moved.shared, moved.write = {}, {}, False
            values = planted.averages(law, nodes, self.sizes, moved.scalar, self.env.get(SCRAMBLE))
            return values, values

        here = jnp.array([self.env[v] for v in variables], dtype=jnp.result_type(float))
        slopes, values = (
            jax.jacfwd(at, has_aux=True)(here) if variables else at(here)
        )  # no variable, no slope
        for i, node in enumerate(nodes):
            self.memo[(node, ())] = values[i].reshape((1,) * self.ndim)
            for j, variable in enumerate(variables):
                self.memo[(Slope(node, variable), ())] = slopes[i, j].reshape((1,) * self.ndim)
        return self.memo[(e, ())]


SCRAMBLE = sp.Symbol("scramble_")
"""Which of the scrambled point sets a sampled evaluation uses; bound like a control."""
