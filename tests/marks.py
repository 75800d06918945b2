"""What the default run leaves out, and what a machine without Java does."""

import os
import shutil

import pytest

has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
WITHOUT_JAVA = "Spark needs Java, which this machine does not have"


def slow(*values, **keywords):
    """Return parameters with slow tests, for most of many similar tests."""
    return [pytest.param(value, marks=pytest.mark.slow, **keywords) for value in values]
