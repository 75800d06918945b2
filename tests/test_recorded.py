"""For the same `random_state` the same released numbers, bit by bit."""

import json

from tests.recorded import PATH, as_text


def test_releases_with_a_seed_are_the_recorded_ones():
    recorded = json.loads(PATH.read_text())
    released = as_text()
    assert list(released) == list(recorded)
    differing = [name for name, values in released.items() if values != recorded[name]]
    assert differing == []
