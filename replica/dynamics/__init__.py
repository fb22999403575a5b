"""Flows and their trajectories."""
