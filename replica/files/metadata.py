"""What HDF5 has no word for (None, bool, tuple, dict, infinity, an array) as text, and back.

Equal texts are equal values, also for NaN and arrays. A text that is read may come from anybody:
nothing in it is evaluated, and it cannot claim more than it holds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

LARGEST_TEXT = 64_000_000
"""Characters of the metadata of a file or of a variable."""

_DTYPE = re.compile(r"[<>|=](?:b1|[iu][1248]|f[248]|U[0-9]{1,9}|O8?)|U")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encoded(value: Any) -> str:
    """Metadata as the text that is stored.

    Raises
    ------
    TypeError, ValueError
        There is no encoding for it, or it is too long.
    """
    text = json.dumps(_encode(value), allow_nan=False)
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"its metadata are longer than {LARGEST_TEXT} characters: shorten them")
    return text


def decoded(text: Any) -> Any:
    """The value of a text.

    Raises
    ------
    TypeError, ValueError, LookupError, RecursionError
        It is no text that ``encoded`` makes.
    """
    if not isinstance(text, str):
        raise TypeError("its metadata are no text")
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"its metadata are longer than {LARGEST_TEXT} characters")
    return json.loads(text, object_hook=_decode, parse_constant=_no_constant)


def _encode(value: Any) -> Any:
    """To JSON; what JSON has no word for becomes an object whose one key starts with $."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, list | tuple):
        items = [_encode(v) for v in value]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        pairs = [[_encode(k), _encode(v)] for k, v in value.items()]
        plain = all(isinstance(k, str) and not k.startswith("$") for k, _ in pairs)
        return dict(pairs) if plain else {"$dict": pairs}
    array = np.asarray(value)  # of numpy or jax; of anything else an object
    if (
        not hasattr(value, "__array__")
        or array.dtype.kind not in "biufUO"
        or array.dtype.char == "g"
    ):
        raise TypeError(
            f"no encoding for {value!r} ({type(value).__name__}): use real numbers, text, lists,"
            " tuples, dicts or arrays"
        )
    return {"$array": [array.dtype.str, array.shape, [_encode(v) for v in array.ravel().tolist()]]}


def _decode(content: dict[str, Any]) -> Any:
    """Hook of ``json.loads``, called on the innermost objects first."""
    tag = next(iter(content), "")
    if not tag.startswith("$"):
        return content
    if len(content) != 1 or tag not in _TAGS:
        raise ValueError(f"its metadata have the unknown word {tag!r}")
    return _TAGS[tag](content[tag])


def dtype_of(name: Any) -> np.dtype[Any]:
    """The type of that name; NumPy's own reader of names takes far more than what is stored."""
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ValueError("something in it has no type that is stored")
    return np.dtype(name)


def _array(parts: Any) -> Any:
    name, shape, values = parts
    dtype = dtype_of(name)
    if not isinstance(values, list):
        raise TypeError("the values of an array in its metadata are no list")
    # The text holds every value, so only the width of a text can claim more than there is.
    if dtype.itemsize * len(values) > 4 * LARGEST_TEXT:
        raise ValueError("an array in its metadata claims more text than there is")
    flat = np.empty(len(values), dtype)
    for i, v in enumerate(values):  # one by one: an object array may hold lists
        flat[i] = v
    return flat.reshape(shape)[()]


def _tuple(items: Any) -> tuple[Any, ...]:
    if not isinstance(items, list):
        raise TypeError("a tuple in its metadata is no list")
    return tuple(items)


def _no_constant(text: str) -> Any:
    raise ValueError(f"its metadata have the unknown word {text}")


_TAGS = {"$float": _FLOATS.__getitem__, "$tuple": _tuple, "$dict": dict, "$array": _array}
