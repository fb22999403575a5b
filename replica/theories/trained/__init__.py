"""Trained predictors: a minimisation in every sample of the data."""
