"""The registry of evaluation rules: one for each kind of node, found by the node's class.

    @lowers(MyNode)
    def my_node(evaluation, node): ...        # an array with one dimension per bound variable

A rule asks ``evaluation.value(expr)`` for its parts, and lays out bound variables with
``evaluation.along`` and ``evaluation.under``. A file of a user's own may register one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

Rule = Callable[[Any, Any], Any]
"""(evaluation, node) -> value."""
RULES: dict[type, Rule] = {}
PARTS: set[type] = set()
"""Nodes that are evaluated by the nodes around them."""


def lowers(*nodes: type) -> Callable[[Rule], Rule]:
    """Register the rule that evaluates these kinds of nodes, and those derived from them.

    Parameters
    ----------
    *nodes : type
        Classes of SymPy expressions.

    Returns
    -------
    callable
        A decorator of the rule, (evaluation, node) -> array.
    """

    def register(rule: Rule) -> Rule:
        for node in nodes:
            RULES[node] = rule
        return rule

    return register


def rule_of(node: sp.Basic | type) -> Rule | None:
    """The rule for a node, or for a class of nodes: that of the class, or of the nearest one it
    derives from.
    """
    family = node if isinstance(node, type) else type(node)
    return next((RULES[kind] for kind in family.__mro__ if kind in RULES), None)


def has_rule(node: sp.Basic) -> bool:
    """Whether a node is evaluated, by itself or by the nodes around it."""
    return rule_of(node) is not None or isinstance(node, tuple(PARTS))
