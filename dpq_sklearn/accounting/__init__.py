"""Accounting: what a budget is, what a release costs, and how costs add up.

Composition happens here and nowhere else, and everything is rounded against ourselves.
"""
