"""Mechanisms that release quantiles, counts and labels."""
