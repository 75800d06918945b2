import os

# scikit-learn's check of array API input runs only if this is set before scipy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)
