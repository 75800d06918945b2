"""Composite estimators: the estimators inside them, how often each is fitted, on which rows."""
