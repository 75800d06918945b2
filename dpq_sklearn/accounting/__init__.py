"""Budgets, costs, and the rules by which costs compose. All numbers are rounded up."""
