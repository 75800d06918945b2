"""Marks of the tests: what the default run leaves out."""

import pytest


def slow(*values, **keywords):
    """Return parameters whose tests are slow: some of many that are alike."""
    return [pytest.param(value, marks=pytest.mark.slow, **keywords) for value in values]
