"""What the parts of a curve, and the cells of a map, are called in files: read by what makes them
and by what draws them, which needs nothing else of this folder.
"""

ROLES = (
    "the uninformed branch",
    "none: between folds",
    "the informed branch",
    "a further branch, between folds of two S shapes",
)
UNINFORMED, BETWEEN, INFORMED, FURTHER = range(4)
MARGINAL = 1e-5
"""A spectral radius this near to 1 is a fold or the end of a trivial branch, neither stable nor
unstable.
"""
UNKNOWN_BRANCH = -1
"""Of a cell of a map of branches: none was found, or it is not computed yet."""
