"""Forecasts without data: expected errors, numbers of bins, the cost of searches."""
