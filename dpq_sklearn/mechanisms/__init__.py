"""Mechanisms that release quantiles: AQ and the paper's other ones."""
