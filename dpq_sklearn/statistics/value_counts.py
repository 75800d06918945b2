"""Private counts of the labels of a column, with or without a public list of labels."""

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import neighbours_of
from dpq_sklearn.checks import shown
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.reading.categories import NO_CATEGORY, column_of_categories, public_form
from dpq_sklearn.reading.containers import no_data_in_frames
from dpq_sklearn.reading.counted import Labels
from dpq_sklearn.reading.describe_format import index_of_labels
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.releases.categories import plan_value_counts
from dpq_sklearn.releases.plans import plan_counts
from dpq_sklearn.releases.release import pay, release


def dp_value_counts(
    x,
    *,
    keys=None,
    eps=1.0,
    delta=1e-6,
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Count the records with each label of a column, with noise.

    Like :meth:`pandas.Series.value_counts`. The labels may be a public list, or be found privately.
    Read more in the :ref:`User Guide <counts_of_categories>`.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private labels: text, numbers or booleans. Missing values are one label. Labels are
        compared as in :class:`DPOneHotEncoder`.
    keys : array-like or None, default=None
        The public labels to count, never taken from the data. Labels that do not occur are counted,
        too. None finds the labels privately and leaves out rare labels.
    eps : float, default=1.0
        Privacy budget of all counts together.
    delta : float, default=1e-6
        With ``keys=None`` the release is (eps, delta)-DP, and delta must be larger than 0. Public
        `keys` do not use it: their release is (eps, 0)-DP.
    groups : array-like of shape (n_samples,) or None, default=None
        The person each row belongs to. With `groups` a person counts once, with the label that
        most of their rows have.
    random_state, ledger, return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    counts : pandas.Series, or dict if pandas is not installed
        The noisy count of each label, largest first. With public `keys` counts may be negative.
        A missing value is NaN.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one row, or all rows of a person, added or removed, which
    changes one count by 1. The counts of public keys get discrete Laplace noise. To find labels
    privately, the noise is cut off, and labels with a noisy count above its largest value are
    released. This finds nearly as many labels as the optimal mechanism, and the counts are free.

    See Also
    --------
    DPOneHotEncoder : Indicators of private categories.
    dp_histogram : Counts of numbers between given edges.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import dp_value_counts
    >>> towns = np.array(["Bern"] * 500 + ["Basel"] * 300 + ["Ardez"])
    >>> dp_value_counts(towns, eps=1.0, random_state=0).to_dict()
    {'Bern': 499, 'Basel': 300}
    >>> dp_value_counts(towns, keys=["Bern", "Zug"], eps=1.0, random_state=0).to_dict()
    {'Bern': 500, 'Zug': 0}
    """
    labels = None if keys is None else _checked_keys(keys)
    neighbours = neighbours_of(groups)
    if labels is None:
        plan = plan_value_counts(TotalBudget(eps, delta), neighbours)
    else:
        plan = plan_counts(len(labels), TotalBudget(eps), neighbours=neighbours)
    randomness = make_randomness(random_state)

    with no_data_in_frames():
        x = column_of_categories(x)
        if groups is not None:
            groups = checked_groups(groups, len(x))

    detail = "private keys" if labels is None else f"{len(labels)} keys"
    paid = pay(plan, ledger, randomness, what="dp_value_counts", columns=1, detail=detail)
    with no_data_in_frames():
        released = release(paid, Labels(x, groups, labels or ()))

    if labels is not None:
        released = dict(zip(labels, released.tolist(), strict=True))
    counts = _largest_first(released)
    return (counts, paid.loss) if return_privacy else counts


def _checked_keys(keys):
    """Return the public forms of one or more distinct labels."""
    is_list = hasattr(keys, "__len__") and not isinstance(keys, (str, bytes, dict))
    forms = tuple(map(public_form, keys)) if is_list else ()
    if not forms or NO_CATEGORY in forms or len(set(forms)) < len(forms):
        raise ValueError(f"keys must be distinct texts or numbers, got {shown(keys)}.")
    return forms


def _largest_first(counts):
    """Return counts as a pandas Series, or as a dict; equal counts keep their order."""
    labels = sorted(counts, key=counts.get, reverse=True)
    numbers = [counts[label] for label in labels]
    names = [np.nan if label is None else label for label in labels]

    try:
        import pandas
    except ImportError:
        return dict(zip(names, numbers, strict=True))
    index = index_of_labels(np.array(names, dtype=object))
    return pandas.Series(np.array(numbers, dtype=np.int64), index=index, name="count")
