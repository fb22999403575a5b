"""Curves of fixed points, thresholds and phase diagrams."""
