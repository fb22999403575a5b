"""Proximal problems, samples and location laws of attention."""
