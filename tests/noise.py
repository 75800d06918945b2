"""The noise of tests: the same in every run.

Whatever a test draws without a seed comes from a stream that depends on the name of the test alone:
a test that passes once passes always, and a chance of a false alarm is taken once, by whoever
changes the code. Tests that must have the noise of the operating system are marked
``@pytest.mark.fresh_noise(false_alarm=p)``, where p is the chance that the test fails although the
code is right. So are those that fit in other processes, as far as noise can make them fail.
"""

import random
import zlib
from contextlib import contextmanager

import numpy as np
import pytest

from dpq_sklearn.engine import random as engine_random

# How likely any test of the suite may fail in a run although the code is right.
MOST_FALSE_ALARMS = 1e-4


@contextmanager
def noise_of(item):
    """Draw from the test's own stream instead of the operating system's, unless it is marked."""
    if item.get_closest_marker("fresh_noise"):
        yield
        return

    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (other libraries use it)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_random, "system_words", np.random.PCG64(seed).random_raw)
        yield


def refuse_false_alarms(items):
    """Raise if the probability that any test of a run fails by chance is too large."""
    total = sum(_false_alarm(item) for item in items)
    if total > MOST_FALSE_ALARMS:
        raise pytest.UsageError(
            f"the tests fail by chance with probability {total:.1e}, more than {MOST_FALSE_ALARMS}."
        )


def _false_alarm(item):
    mark = item.get_closest_marker("fresh_noise")
    return 0.0 if mark is None else mark.kwargs["false_alarm"]
