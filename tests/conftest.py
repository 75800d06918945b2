import os

# Each worker of pytest-xdist has a core of its own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# scikit-learn's check of array API input runs only if this is set before scipy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

# A slow machine is no failure, and every run makes the same examples. To look for others:
# --hypothesis-profile=explore
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server, one for each worker of pytest-xdist."""
    from tests.postgres import Server

    server = Server()
    yield server
    server.remove()
