"""Averages, envelopes and special functions as symbols, each with its own derivative rules."""
