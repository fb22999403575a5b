"""A model of the user's own, in one Python file: executed, checked, and used wherever the name of a
model is.

The file defines ``build()``, which returns a ``Model``; ``build(activation="relu")`` has options if
the file also defines ``OPTIONS = {"activation": ("relu", "erf")}``, the first value of each being
the default. It is executed under a module name of its own; while it is, its folder is the last
entry of ``sys.path``, so that it may import what lies beside it and can hide nothing of ours. What
is wrong with it is said in one sentence that begins with the file and, where there is one, the
line.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

from equations import Model, ModelSpec, Source

from ..errors import InputError, LoweringError
from ..theories import theory_of
from .imported import check_loaded, imports_beside

INSIDE = ("equations", "solvers")
"""Packages that users need not import from."""
SUFFIX = ".py"


def is_file(model: Any) -> bool:
    """Whether a model is given by the path of a file."""
    return isinstance(model, os.PathLike) or (isinstance(model, str) and model.endswith(SUFFIX))


def family(path: str | os.PathLike[str]) -> ModelSpec:
    """The model in a file and its options.

    Raises
    ------
    InputError
        The file cannot be read or executed, or has no ``build``.
    """
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise InputError(
            f"cannot read the model {name} ({reason}): give the path of a Python file that defines"
            " build()"
        ) from None
    return from_source(Source(name, text, imports_beside(name, text)))


@cache
def from_source(source: Source) -> ModelSpec:
    """The same from the text of a file, which need not be on this machine."""
    module = _executed(source)
    build = getattr(module, "build", None)
    if not callable(build):
        raise InputError(f"{source.file} has no build(): define build(), which returns a Model")
    options = getattr(module, "OPTIONS", {})
    if not isinstance(options, Mapping) or not all(_choices(v) for v in options.values()):
        raise InputError(
            f"{source.file}: OPTIONS must be a dict of name -> tuple of strings, the default first"
        )
    return ModelSpec(
        _checked(source, build, options),
        options,
        module.__doc__ or "",
        getattr(module, "PARSERS", {}),
    )


def simulation(source: Source) -> Callable[..., Any] | None:
    """The function ``simulate`` of a file, if it has one."""
    return getattr(_executed(source), "simulate", None)


def _choices(values: Any) -> bool:
    return (
        isinstance(values, tuple | list)
        and bool(values)
        and all(isinstance(v, str) for v in values)
    )


@cache
def _executed(source: Source) -> ModuleType:
    check_loaded(source.file, source.imports)
    module = ModuleType(f"replica_model_{source.sha256[:16]}")
    module.__file__ = source.file
    sys.modules[module.__name__] = module
    with named(source):
        exec(compile(source.text, source.file, "exec"), module.__dict__)
    return module


def _checked(
    source: Source, build: Callable[..., Any], options: Mapping[str, tuple[str, ...]]
) -> Callable[..., Model]:
    """``build`` with every mistake named; the model knows its file."""

    def checked(**given: str) -> Model:
        with named(source):
            model = build(**given)
        if not isinstance(model, Model):
            what = type(model).__name__
            raise InputError(
                f"{source.file}: build() returned {what}: it must return a Model (or what bayes_glm"
                " or convex_erm return)"
            )
        chosen = {name: values[0] for name, values in options.items()} | given
        model = replace(model, source=source, options=chosen)
        _check(model, source)
        return model

    return checked


def _check(model: Model, source: Source) -> None:
    """Derive and lower everything once, so that what cannot be is named before any solving."""
    try:
        theory_of(model).check()
    except LoweringError as error:
        raise InputError(f"{source.file}: {error}") from None
    except (ValueError, TypeError, NotImplementedError) as error:
        where = "" if str(error).startswith("model ") else f"model {model.name}: "
        raise InputError(f"{source.file}: {where}{error}") from None


def _moved(error: BaseException) -> str:
    """What to write where a file imports a module of this package by the name it had before."""
    module = error.name if isinstance(error, ImportError) else None
    if module is None or module.partition(".")[0] not in INSIDE:
        return ""
    return ": a model's file imports all that it needs from replica (from replica import ...)"


@contextmanager
def named(source: Source) -> Iterator[None]:
    """Run code of a user's file: its folder is importable, and what it raises becomes one sentence
    that says where.
    """
    folder = os.path.dirname(os.path.abspath(source.file))
    sys.path.append(folder)
    try:
        yield
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(
            f"{error.filename or source.file}, line {error.lineno}: {error.msg}"
        ) from None
    except (Exception, SystemExit) as error:  # anything may come out of a user's code
        line = next(
            (
                f.lineno
                for f in reversed(traceback.extract_tb(error.__traceback__))
                if f.filename == source.file
            ),
            None,
        )
        where = source.file if line is None else f"{source.file}, line {line}"
        kind = "" if type(error).__name__ == "ModelError" else f"{type(error).__name__}: "
        raise InputError(f"{where}: {kind}{error}{_moved(error)}") from error
    finally:
        sys.path.remove(folder)
