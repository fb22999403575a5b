"""Special functions as rational forms, vectorised, for double precision."""

from .elementary import log1p, softplus
from .normal import (
    erf,
    erfc,
    inverse_mills,
    log_ndtr,
    mills_gap,
    truncated_variance,
)

__all__ = [
    "erf",
    "erfc",
    "inverse_mills",
    "log1p",
    "log_ndtr",
    "mills_gap",
    "softplus",
    "truncated_variance",
]
