import os

# scikit-learn's check of array API input runs only if this is set before scipy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

# A slow machine is no failure, and what CI finds must be found again.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
