"""Grids of points."""
