"""Statements: what a fitted estimator or a ledger has cost, for those who answer for it."""
