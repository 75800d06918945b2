"""privacy_statement: one page about a fitted estimator or a ledger, for privacy officers."""

import platform
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import _check_feature_names_in

from dpq_sklearn.accounting.loss_in_words import NOT_COVERED, described, guarantee
from dpq_sklearn.checks import shown
from dpq_sklearn.composites.nested import nested_estimators
from dpq_sklearn.ledger.ledger import PrivacyLedger
from dpq_sklearn.reporting.document import Section, Table, as_html, as_markdown
from dpq_sklearn.reporting.privacy_of import privacy_of
from dpq_sklearn.version import __version__

_FORMATS = {"markdown": as_markdown, "html": as_html}
# A statement shows the first and the last of more numbers.
_MOST_NUMBERS = 12
_SEEDED = (
    "A seed was used. The guarantee does not hold against anyone who knows the seed, because they "
    "can remove the noise."
)


def privacy_statement(
    estimator_or_ledger: Any, *, format: str = "markdown", row_wise: Collection = ()
) -> str:
    """Return one page about the released numbers, the guarantee, and its limits.

    The page contains only released numbers and public facts, so it may be shown to anyone who may
    see the fitted estimator or the ledger. Read more in the :ref:`User Guide <statement>`.

    Parameters
    ----------
    estimator_or_ledger : estimator or PrivacyLedger
        A fitted private transformer; a fitted Pipeline, search or other estimator with private
        transformers inside; or a ledger.
    format : {"markdown", "html"}, default="markdown"
        The format of the page.
    row_wise : list of functions and names of steps, default=()
        Functions and steps that compute each row of their output from one row, as for
        :func:`privacy_of`.

    Returns
    -------
    statement : str

    See Also
    --------
    privacy_of : The same facts as an object.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import DPKBinsDiscretizer, privacy_statement
    >>> X = np.random.default_rng(0).normal(size=(1000, 1))
    >>> statement = privacy_statement(DPKBinsDiscretizer(4).fit(X))
    >>> print(*[line for line in statement.splitlines() if line.startswith("#")], sep="\\n")
    # Privacy statement
    ## Guarantee
    ## Cost
    ## Released: DPKBinsDiscretizer
    ## Parameters: DPKBinsDiscretizer
    ## What it does not cover
    ## Made with
    """
    if format not in _FORMATS:
        raise ValueError(f"format must be one of {sorted(_FORMATS)}, got {shown(format)}.")

    if isinstance(estimator_or_ledger, PrivacyLedger):
        sections = _sections_of_ledger(estimator_or_ledger)
    else:
        sections = _sections_of_estimator(estimator_or_ledger, row_wise)
    return _FORMATS[format]("Privacy statement", [*sections, _versions()])


def _sections_of_estimator(estimator, row_wise):
    inside = privacy_of(estimator, row_wise=row_wise)
    private = {
        nested.name: nested
        for nested in nested_estimators(estimator, is_fitted=True)
        if nested.name in inside.parts and hasattr(nested.estimator, "privacy_")
    }

    return [
        _guarantee(inside.total, inside),
        _cost(inside.total, inside),
        *(_released(nested) for nested in private.values()),
        *(_parameters(nested) for nested in private.values()),
        _not_covered(inside.not_private),
    ]


def _sections_of_ledger(ledger):
    total = ledger.spent()
    records = ledger.records()
    caps = ledger.caps
    left = ledger.remaining()

    budget = tuple(
        f"{name}: {cap:g}" for name, cap in zip(("eps", "delta", "rho"), caps, strict=True) if cap
    )
    rows = tuple(
        (
            f"{record.time:%Y-%m-%d %H:%M}",
            record.what,
            _columns(record.columns),
            record.detail or "",
            f"{record.eps:g}",
        )
        for record in records
    )
    return [
        _guarantee(total),
        Section("Budget", (budget or ("no caps: the ledger only keeps a record",),)),
        Section("Left", (f"A release of eps={left.eps:g} still fits.",)),
        _cost(total),
        Section("Releases", (Table(("time", "what", "columns", "detail", "eps"), rows),)),
        _not_covered(),
    ]


def _guarantee(loss, inside=None):
    content = [guarantee(loss)]
    if inside is not None and inside.unknown:
        content = ["Not all private fits are known, so there is no total to state."]
    if inside is not None and not inside.holds:
        content = [
            "The guarantee does NOT hold for the rows that this estimator was given:",
            inside.void_sentences,
        ]
    if not loss.os_randomness:
        content.append(_SEEDED)
    return Section("Guarantee", tuple(content))


def _cost(loss, inside=None):
    table = Table(("", ""), tuple(described(loss).items()))
    if inside is None:
        return Section("Cost", (table,))

    n_fits = f"{inside.n_fits} private fit{'' if inside.n_fits == 1 else 's'}"
    line = f"{inside.bound_in_words} {n_fits}, which cost {inside.bound_in_words} in all:"
    line = " ".join(line.split())
    notes = tuple(inside.about_the_total())
    return Section("Cost", (line[0].upper() + line[1:], table, *((notes,) if notes else ())))


def _released(nested):
    estimator = nested.estimator
    names = _check_feature_names_in(estimator)
    are_categories = hasattr(estimator, "categories_")
    values = estimator._private_values() if are_categories else estimator._shown_values()

    rows = tuple(
        (str(name), _shortened(of_feature)) for name, of_feature in zip(names, values, strict=True)
    )
    about = f"{type(estimator).__name__}, from {_origin(estimator)}."
    heading = "categories" if are_categories else "private values"
    return Section(f"Released: {nested.name}", (about, Table(("feature", heading), rows)))


def _origin(estimator):
    if estimator.privacy_.pure_eps == 0:
        return "public facts alone: no rows were read"
    if not hasattr(estimator, "n_rows_"):  # encoders release no count
        return "private rows"
    unit = estimator.privacy_.neighbours.value
    return f"about {estimator.n_rows_:,} {unit} (a noisy count)"


def _shortened(values):
    """Return released numbers or categories as a text, shortened in the middle if it is long."""
    values = np.asarray(values).tolist()
    texts = [
        f"{value:.6g}" if isinstance(value, (int, float)) else str(value).removesuffix(" 00:00:00")
        for value in values
    ]
    if len(texts) > _MOST_NUMBERS:
        half = _MOST_NUMBERS // 2
        texts = [*texts[:half], "...", *texts[-half:]]
    return ", ".join(texts)


def _parameters(nested):
    parameters = nested.estimator.get_params(deep=False)
    parameters.pop("ledger", None)  # it is named with the cost
    rows = tuple(
        (name, value.__name__ if isinstance(value, type) else shown(value))
        for name, value in parameters.items()
        if value is not None
    )
    return Section(f"Parameters: {nested.name}", (Table(("parameter", "value"), rows),))


def _not_covered(not_private=()):
    steps = tuple(f"the step {name!r}, which learns from the rows" for name in not_private)
    return Section("What it does not cover", ((*steps, *NOT_COVERED),))


def _versions():
    versions = {"dpq_sklearn": __version__, "scikit-learn": sklearn.__version__}
    versions |= {"NumPy": np.__version__, "Python": platform.python_version()}
    written = f"Written on {datetime.now(UTC):%Y-%m-%d} (UTC)."
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Section("Made with", (f"{text}. {written}",))


def _columns(columns):
    if isinstance(columns, tuple):
        return ", ".join(columns)
    return "" if columns is None else str(columns)
