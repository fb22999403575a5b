"""Generalized linear models from their parts: densities, priors, channels."""
