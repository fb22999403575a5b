"""Print a model: setting, free energy, derived equations, sources; as text or as a LaTeX document
that compiles.

Long integrals are named: an equation reads q_hat = ... F_1 ... and a list says what F_1 is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter

from equations import Model, derive
from equations.calculus.averages import Bound

from .errors import InputError
from .models import built, family, resolve
from .models.docstrings import notes_of, sources_of
from .theories import theory_of

NAMED_ABOVE = 60
"""Integrals whose text is longer than this get a name."""


def show(
    model: str | Model, *, latex: bool = False, markdown: bool = False, **settings: Any
) -> str:
    """Print a model: setting, free energy, derived equations, sources.

    Parameters
    ----------
    model : str, path or Model
        A name, the file of a model of your own, or a model.
    latex : bool
        A LaTeX document that compiles.
    markdown : bool
        A page of the documentation (MyST), with what the model's file says of it.
    **settings
        Options of the model, such as ``activation="erf"``; controls are checked and change nothing.

    Returns
    -------
    str
        Plain text, unless another format is asked for.
    """
    if latex and markdown:
        raise InputError("latex and markdown are two formats: give one of them")
    ready = chosen(model, settings)
    if markdown:
        return page(ready, "" if isinstance(model, Model) else family(model).docstring)
    return document(ready) if latex else text(ready)


def chosen(model: str | Model, settings: Mapping[str, Any]) -> Model:
    """The model with its options; unknown names are refused, also those of controls."""
    ready, _ = built(model, settings)
    resolve(model, settings, partial=[q.name for q in ready.controls])
    return ready


def text(model: Model) -> str:
    """Plain text."""
    lines = [f"{model.name}: {model.title}", "", "Setting", *_indent(model.setting)]
    lines += [
        "",
        "Overlaps",
        *(
            f"  {q.name:<10} {q.range_text()}{', ' + q.scaling if q.scaling else ''}: {q.meaning}"
            for q in model.overlaps
        ),
    ]
    lines += [
        "",
        "Controls",
        *(f"  {q.name:<10} {q.range_text()}: {q.meaning}" for q in model.controls),
    ]
    if model.options:
        lines += ["", "Options", *(f"  {k} = {v}" for k, v in model.options.items())]
    aim = "to be maximised" if model.best == "largest" else "to be minimised"
    lines += ["", f"Free energy ({aim})", *_indent(sp.sstr(model.free_energy))]
    lines += ["", "Equations (derived)", *_equations(model)]
    lines += [
        "",
        "Observables",
        *(f"  {k} = {sp.sstr(o.expr)}   [{o.units}]" for k, o in model.observables.items()),
    ]
    for title, note in notes_of(model).items():
        lines += ["", title, *_indent(note)]
    if sources := sources_of(model):
        lines += ["", "Sources", *(f"  {s}" for s in sources)]
    if model.source is not None:
        lines += ["", "File", f"  {model.source.file}"]
    return "\n".join(lines)


def entries(model: Model) -> dict[str, Any]:
    """The same as JSON-like values, expressions as SymPy prints them, without names for long
    integrals.
    """
    quantities = {
        kind: [
            {"name": q.name, "range": q.range_text(), "scaling": q.scaling, "meaning": q.meaning}
            for q in getattr(model, kind)
        ]
        for kind in ("overlaps", "conjugates", "controls")
    }
    return {
        "model": model.name,
        "title": model.title,
        "setting": model.setting,
        **quantities,
        "options": dict(model.options),
        "aim": model.best,
        "free_energy": sp.sstr(model.free_energy),
        "equations": {str(left): sp.sstr(right) for left, right in derive(model).items()},
        "observables": {name: sp.sstr(value) for name, value in model.expressions.items()},
        "units": {name: o.units for name, o in model.observables.items()},
        "notes": notes_of(model),
        "sources": list(sources_of(model)),
    }


def _indent(block: str) -> list[str]:
    return [f"  {line}" for line in block.splitlines()]


def _abbreviated(model: Model) -> tuple[dict[sp.Symbol, sp.Expr], dict[sp.Expr, sp.Expr]]:
    """Derived equations with their long inner integrals replaced by names I_1(s, y), ..., and those
    names.

    A name carries the variables of the integrals around it: they are what it is a function of.
    """
    equations = derive(model)
    known = {q.symbol for q in model.quantities}
    names: dict[sp.Expr, sp.Expr] = {}

    def shorten(expr: sp.Basic) -> sp.Basic:
        if not expr.args:
            return expr
        rebuilt = expr.func(*(shorten(a) for a in expr.args))
        if not isinstance(rebuilt, Bound) or len(sp.sstr(rebuilt)) <= NAMED_ABOVE:
            return rebuilt
        if rebuilt not in names:
            around = sorted(rebuilt.free_symbols - known, key=str)
            names[rebuilt] = (
                sp.Function(f"I_{len(names) + 1}")(*around)
                if around
                else sp.Symbol(f"I_{len(names) + 1}")
            )
        return names[rebuilt]

    short = {left: shorten(right) for left, right in equations.items()}
    return short, {name: expr for expr, name in names.items()}  # type: ignore[return-value]


def _equations(model: Model) -> list[str]:
    short, names = _abbreviated(model)
    head = theory_of(model).objective[1]
    lines = [f"  {head}{left} = {sp.sstr(right)}" for left, right in short.items()]
    if names:
        lines += ["  where", *(f"    {symbol} = {sp.sstr(expr)}" for symbol, expr in names.items())]
    return lines or ["  none: the objective has no unknown"]


def document(model: Model) -> str:
    """A complete LaTeX document (needs amsmath alone)."""
    body = [rf"\section*{{{_escape(model.title)}}}", _escape(model.setting)]
    for title, equations in _derivation(model).items():
        body += [rf"\subsection*{{{title}}}", *(_display(e) for e in equations)]
    if sources := sources_of(model):
        body += [
            r"\subsection*{Sources}",
            r"\begin{itemize}",
            *(rf"\item {_escape(s)}" for s in sources),
            r"\end{itemize}",
        ]
    head = (
        r"\documentclass{article}"
        + "\n"
        + r"\usepackage{amsmath,amssymb}"
        + "\n"
        + r"\begin{document}"
        + "\n"
        + r"\allowdisplaybreaks"
    )
    return "\n".join([head, *body, r"\end{document}", ""])


def page(model: Model, docstring: str) -> str:
    """A page of the documentation (MyST Markdown): what the model's file says of it, and its
    derivation.
    """
    lines = [
        f"# {model.name}",
        "",
        model.title,
        "",
        "```text",
        *docstring.strip().splitlines(),
        "```",
        "",
    ]
    for title, equations in _derivation(model).items():
        lines += [f"## {title}", ""]
        for equation in equations:
            lines += ["```{math}", equation, "```", ""]
    return "\n".join(
        [
            *lines,
            (
                f"`replica show {model.name}` prints the same as text, with `--latex` as a LaTeX"
                " document."
            ),
            "",
        ]
    )


def _derivation(model: Model) -> dict[str, list[str]]:
    """Section -> displayed equations, in LaTeX."""
    printer = LatexPrinter(
        {"symbol_names": {q.symbol: q.label for q in model.quantities}, "mul_symbol": None}
    )
    short, names = _abbreviated(model)
    objective, _, zero = theory_of(model).objective

    def equation(left: sp.Symbol, right: sp.Expr) -> str:
        label, value = printer.doprint(left), printer.doprint(right)
        if not objective:
            return f"{label} = {value}"
        return rf"\frac{{\partial {objective}}}{{\partial {label}}} = {value}{zero}"

    labels = {k: o.latex or (r"\mathrm{" + _escape(k) + "}") for k, o in model.observables.items()}
    sections = {
        "Free energy": [printer.doprint(model.free_energy)],
        "Equations, derived": [equation(left, right) for left, right in short.items()],
        "where": [f"{printer.doprint(s)} = {printer.doprint(e)}" for s, e in names.items()],
        "Observables": [
            f"{labels[k]} = {printer.doprint(v)}" for k, v in model.expressions.items()
        ],
    }
    return {title: equations for title, equations in sections.items() if equations}


def _display(equation: str) -> str:
    return "\\begin{equation*}\n" + equation + "\n\\end{equation*}"


def _escape(prose: str) -> str:
    for character in "\\&%$#_{}^~":
        prose = prose.replace(
            character,
            (
                r"\textbackslash{}"
                if character == "\\"
                else "\\" + character + ("{}" if character in "^~" else "")
            ),
        )
    return prose
