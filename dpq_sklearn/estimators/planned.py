"""Upper bounds of the cost of a fit, without data.

The number of features, their names, and whether there will be groups may be unknown. The bound is
then the largest eps, the largest delta and the largest rho of all fits that are possible.
"""

import math
from dataclasses import replace
from itertools import permutations
from numbers import Integral

from dpq_sklearn.accounting.budgets import ROUNDING
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp
from dpq_sklearn.accounting.losses import most_of_each
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.estimators.parameters import is_pair
from dpq_sklearn.releases.plans import losses_by_composition

# If some parameters are by name and others by position, the order of the features matters. Up to
# this number of features, all orders are planned.
MOST_IN_ANY_ORDER = 5


def planned_loss(transformer, n_features=None):
    """Return an upper bound of the cost of a fit of a private transformer."""
    free = {"bounds": None, "decimals": None, "prior": None}
    for name in transformer._parameters_with_a_cost:
        free.pop(name, None)

    budget = transformer._total_budget()
    may_count_points = (
        transformer.mechanism in ("agg_tree", "auto")
        and transformer.decimals is not None
        and budget.eps is not None
    )

    losses_of = _losses_by_any_account if may_count_points else _only_loss
    loss = _without_lattices(transformer._with(**free), n_features, losses_of)
    is_free = loss.eps == 0
    return _with_counts_of_points(loss, budget) if may_count_points and not is_free else loss


def _with_counts_of_points(loss, budget):
    """Return a loss that also covers fits with noisy counts of few points.

    Laplace noise on a single level costs at most eps^2 / 2, because the shares sum to 1. With a
    delta, the noise may be Gaussian. It then spends the full rho of (eps, delta) and has no pure
    eps. Costs are rounded up by less than `ROUNDING`.
    """
    rho = max(loss.rho, budget.eps**2 / 2)
    if budget.delta == 0:
        return replace(loss, rho=rho * (1 + ROUNDING))

    of_gaussian = rho_of_approximate_dp(budget.eps, budget.delta)
    return replace(
        loss,
        delta=budget.delta,
        rho=max(rho, of_gaussian) * (1 + ROUNDING),
        pure_eps=math.inf,
    )


def _without_lattices(draft, n_features, losses_of):
    """Return the largest cost of a fit without declared decimals."""
    draft._forget()

    entries = [_entries(draft, name) for name in draft._parameters_with_a_cost]
    if n_features is None:
        n_features = _number_by_position(entries)
    if n_features is None:
        return _dearest_of_any_number(draft, losses_of)

    named = (draft._with(feature_names_in_=names) for names in _names(entries, n_features))
    return _dearest(named, n_features, losses_of)


def _entries(draft, name):
    """Return a parameter of a draft, or None for a pair of bounds for all features."""
    given = getattr(draft, name)
    is_for_all = name == "bounds" and given is not None and is_pair(given)
    return None if is_for_all else given


def _dearest(drafts, n_features, losses_of):
    """Return a loss that covers the fits of all drafts. Groups do not change the cost."""
    plans = [draft._plan(n_features, draft._total_budget()) for draft in drafts]
    losses = [loss for plan in plans for loss in losses_of(plan)]
    return replace(most_of_each(losses), neighbours=Neighbours.ROWS)


def _only_loss(plan):
    return [plan.loss]


def _losses_by_any_account(plan):
    """Return the losses of a plan by all compositions, because decimals may change the choice."""
    candidates = getattr(plan, "candidates", (plan,))
    requests = [each.request for each in candidates if not each.request.is_free]
    return [plan.loss, *(loss for request in requests for loss in losses_by_composition(request))]


def _dearest_of_any_number(draft, losses_of):
    """Return a loss that covers fits of any number of features.

    With a share s of eps, a feature spends c s^2 of rho, where c depends on its quantiles. The
    shares sum to 1, so the features together spend at most the rho of a single feature with the
    largest c. A budget in rho is spent in full, and its eps is infinite because of the count.
    """
    loss = _dearest(draft._with_equal_features(), 1, losses_of)
    if loss.eps == 0:  # nothing is drawn from any feature
        return loss

    budget = draft._total_budget()
    if budget.delta > 0:
        raise ValueError(
            f"n_features must be given to plan a {type(draft).__name__} with delta > 0, because "
            "the composition depends on the number of features, got None."
        )

    return loss


def _number_by_position(entries):
    """Return the number of features if a parameter has an entry for each of them, or None."""
    return next((len(given) for given in entries if _is_by_position(given)), None)


def _is_by_position(given):
    return given is not None and not isinstance(given, (Integral, str, dict))


def _names(entries, n_features):
    """Return possible lists of feature names: names in the parameters, and numbers for the others.

    The order matters only if some parameters are by name and others by position.
    """
    by_name = [given for given in entries if isinstance(given, dict)]
    names = list(dict.fromkeys(name for given in by_name for name in given))
    names += range(len(names), n_features)

    if not by_name or not any(map(_is_by_position, entries)):
        return [names]
    if n_features > MOST_IN_ANY_ORDER:
        raise ValueError(
            "n_bins, feature_weights and bounds must all be given by name, or all by position, to "
            f"plan more than {MOST_IN_ANY_ORDER} features, got some of each kind."
        )
    return permutations(names)
