"""Finite-size simulations, to be held against the equations."""
