"""The mechanisms by their names."""

from dpq_sklearn.checks import shown
from dpq_sklearn.mechanisms.agg_tree import AggregateTree
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.ind_exp import IndependentExponential
from dpq_sklearn.mechanisms.joint_exp import JointExponential

MECHANISMS = {
    "aq": ApproximateQuantiles(),
    "joint_exp": JointExponential(),
    "ind_exp": IndependentExponential(),
    "agg_tree": AggregateTree(),
    "auto": AutomaticChoice(),
}

# What the names stand for where the rows of a person share the weight of one record.
WITH_GROUPS = {name: mechanism for name, mechanism in MECHANISMS.items() if mechanism.takes_weights}


def checked_mechanism(name, with_groups=False):
    """Return the mechanism of that name; with groups, one that takes weights."""
    known = WITH_GROUPS if with_groups else MECHANISMS
    if not isinstance(name, str) or name not in known:
        where = " with groups" if with_groups else ""
        raise ValueError(f"mechanism must be one of {sorted(known)}{where}, got {shown(name)}.")
    return known[name]
