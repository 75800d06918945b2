"""The mechanisms that users choose by name."""

from dpq_sklearn.checks import shown
from dpq_sklearn.mechanisms.agg_tree import AggregateTree
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.extreme_quantiles import TailAwareQuantiles
from dpq_sklearn.mechanisms.protocol import Mechanism

MECHANISMS: dict[str, Mechanism] = {
    "aq": TailAwareQuantiles(),
    "agg_tree": AggregateTree(),
    "auto": AutomaticChoice(),
}


def checked_mechanism(name: str) -> Mechanism:
    """Return the mechanism with this name."""
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {sorted(MECHANISMS)}, got {shown(name)}.")
    return MECHANISMS[name]
