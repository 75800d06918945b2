"""What a fit will cost, said without data: never less than the fit is charged.

A plan may not know how many features there will be, what they are called, and whether there will be
groups. Of all fits that are possible then it takes the dearest, in eps, delta and rho each.
"""

from dataclasses import replace
from itertools import permutations
from numbers import Integral

from dpq_sklearn.accounting.losses import most_of_each
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.estimators.parameters import is_pair

# Of so many features all orders are planned, if some parameters go by name and others by position.
MOST_IN_ANY_ORDER = 5


def planned_loss(transformer, n_features=None):
    """Return what a fit of a private transformer will cost at most."""
    free = {"bounds": None, "decimals": None, "prior": None}
    for name in transformer._parameters_with_a_cost:
        free.pop(name, None)

    loss = _without_lattices(transformer._with(**free), n_features)
    budget = transformer._total_budget()
    may_count_points = transformer.mechanism in ("agg_tree", "auto") and loss.eps > 0
    if transformer.decimals is None or budget.eps is None or not may_count_points:
        return loss
    # Counts over a few points have noise on a single level: at most eps^2 / 2, as shares sum to 1.
    return replace(loss, rho=max(loss.rho, budget.eps**2 / 2))


def _without_lattices(draft, n_features):
    """Return what a fit will cost if nothing is known of the numbers of any feature."""
    draft._forget()

    entries = [_entries(draft, name) for name in draft._parameters_with_a_cost]
    if n_features is None:
        n_features = _number_by_position(entries)
    if n_features is None:
        return _dearest_of_any_number(draft)

    named = (draft._with(feature_names_in_=names) for names in _names(entries, n_features))
    return _dearest(named, n_features)


def _entries(draft, name):
    """Return a parameter of a draft; None if it is one pair of bounds for all features."""
    given = getattr(draft, name)
    is_for_all = name == "bounds" and given is not None and is_pair(given)
    return None if is_for_all else given


def _dearest(drafts, n_features):
    """Return a loss that covers fits of all drafts; groups change no cost."""
    losses = [draft._plan(n_features, draft._total_budget()).loss for draft in drafts]
    return replace(most_of_each(losses), neighbours=Neighbours.ROWS)


def _dearest_of_any_number(draft):
    """Return a loss that covers fits of any number of features.

    With a share s of eps a feature has c s^2 of rho, where c depends on its quantiles. The shares
    sum to 1, so all features have at most what the one with the largest c would have by itself.
    A budget in rho is spent in full, and its eps is infinite because of the count.
    """
    loss = _dearest(draft._with_equal_features(), n_features=1)
    if loss.eps == 0:  # nothing is drawn from any feature
        return loss

    budget = draft._total_budget()
    if budget.delta > 0:
        raise ValueError(
            f"n_features must be given to plan a {type(draft).__name__} with delta > 0, for "
            "the number of its columns decides which account it uses, got None."
        )

    return loss


def _number_by_position(entries):
    """Return how many features there are, if a parameter has one entry for each; else None."""
    return next((len(given) for given in entries if _is_by_position(given)), None)


def _is_by_position(given):
    return given is not None and not isinstance(given, (Integral, str, dict))


def _names(entries, n_features):
    """Return the names that features may have: those of the parameters, numbers for the others.

    Costs do not depend on the order, unless some parameters go by name and others by position.
    """
    by_name = [given for given in entries if isinstance(given, dict)]
    names = list(dict.fromkeys(name for given in by_name for name in given))
    names += range(len(names), n_features)

    if not by_name or not any(map(_is_by_position, entries)):
        return [names]
    if n_features > MOST_IN_ANY_ORDER:
        raise ValueError(
            "n_bins, feature_weights and bounds must all be given by name, or all by position, to "
            f"plan more than {MOST_IN_ANY_ORDER} features, got some of each."
        )
    return permutations(names)
