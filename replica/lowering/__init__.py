"""Symbols to arrays."""
