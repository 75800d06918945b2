import os

# Each worker of pytest-xdist has a core of its own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# scikit-learn's check of array API input runs only if this is set before scipy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

from tests.noise import noise_of, refuse_false_alarms
from tests.skips import unexpected

# A slow machine is no failure, and every run makes the same examples. To look for others:
# --hypothesis-profile=explore
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    with noise_of(item):
        yield


def pytest_collection_modifyitems(items):
    refuse_false_alarms(items)


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


def pytest_sessionfinish(session):
    """Fail a run that left out tests unexpectedly."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return

    left_out = unexpected(reporter.stats.get("skipped", []))
    for each in left_out:
        reporter.write_line(f"UNEXPECTED SKIP {each}", red=True)
    if left_out:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
