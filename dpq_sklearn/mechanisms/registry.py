"""The mechanisms by their names."""

from dpq_sklearn.mechanisms.agg_tree import AggregateTree
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.ind_exp import IndependentExponential
from dpq_sklearn.mechanisms.joint_exp import JointExponential
from dpq_sklearn.messages import shown

MECHANISMS = {
    "aq": ApproximateQuantiles(),
    "joint_exp": JointExponential(),
    "ind_exp": IndependentExponential(),
    "agg_tree": AggregateTree(),
    "auto": AutomaticChoice(),
}


def checked_mechanism(name):
    """Return the mechanism of that name."""
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {sorted(MECHANISMS)}, got {shown(name)}.")
    return MECHANISMS[name]
