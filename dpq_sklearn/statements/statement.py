"""privacy_statement: one page about a fitted estimator or a ledger, for those who answer for it."""

import platform
from datetime import UTC, datetime

import numpy as np
import sklearn
from sklearn.utils.validation import _check_feature_names_in

from dpq_sklearn.accounting.descriptions import NOT_COVERED, described, promise
from dpq_sklearn.checks import shown
from dpq_sklearn.composites import parts_of
from dpq_sklearn.ledger.ledger import PrivacyLedger
from dpq_sklearn.statements.document import Section, Table, as_html, as_markdown
from dpq_sklearn.statements.privacy_of import privacy_of
from dpq_sklearn.version import __version__

_FORMATS = {"markdown": as_markdown, "html": as_html}
# Of more numbers a statement shows the first and the last ones.
_MOST_NUMBERS = 12
_SEEDED = (
    "A seed was used. The promise holds only against those who do not know it: whoever does can "
    "remove the noise."
)


def privacy_statement(estimator_or_ledger, *, format="markdown"):
    """Write one page about what was released, for whom it is private, and what it does not cover.

    It is made of released numbers and public facts alone, so it may be shown to anyone who may see
    the fitted estimator or the ledger.

    Parameters
    ----------
    estimator_or_ledger : estimator or PrivacyLedger
        A fitted private transformer, or a fitted Pipeline, ColumnTransformer, FeatureUnion or
        search with such inside; or a ledger.
    format : {"markdown", "html"}, default="markdown"
        How to write it.

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
    ## The promise
    ## How much it cost
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
        sections = _sections_of_estimator(estimator_or_ledger)
    return _FORMATS[format]("Privacy statement", [*sections, _versions()])


def _sections_of_estimator(estimator):
    inside = privacy_of(estimator)
    parts = [part for part in parts_of(estimator) if hasattr(part.estimator, "privacy_")]

    return [
        _promise(inside.total, inside),
        _cost(inside.total),
        *(_released(part) for part in parts),
        *(_parameters(part) for part in parts),
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
        (f"{record.time:%Y-%m-%d %H:%M}", record.what, _columns(record.columns), f"{record.eps:g}")
        for record in records
    )
    return [
        _promise(total),
        Section("Budget", (budget or ("no caps: the ledger only keeps a record",),)),
        Section("Left", (f"A release of eps={left.eps:g} still fits.",)),
        _cost(total),
        Section("Releases", (Table(("time", "what", "columns", "eps"), rows),)),
        _not_covered(),
    ]


def _promise(loss, inside=None):
    content = [promise(loss)]
    if inside is not None and not inside.holds:
        voids = tuple(inside.about_voids())
        content = ["The promise does NOT hold for the rows that this estimator was given:", voids]
    if not loss.os_randomness:
        content.append(_SEEDED)
    return Section("The promise", tuple(content))


def _cost(loss):
    return Section("How much it cost", (Table(("", ""), tuple(described(loss).items())),))


def _released(part):
    estimator = part.estimator
    names = _check_feature_names_in(estimator)
    values = estimator._private_values()

    rows = tuple(
        (str(name), _numbers(of_feature)) for name, of_feature in zip(names, values, strict=True)
    )
    origin = "public facts alone: no rows were read"
    if estimator.n_rows_ is not None:
        origin = f"about {estimator.n_rows_:,} rows (a noisy count)"
    about = f"{type(estimator).__name__}, from {origin}."
    return Section(f"Released: {part.name}", (about, Table(("feature", "private numbers"), rows)))


def _numbers(values):
    texts = [f"{value:.6g}" for value in np.asarray(values).tolist()]
    if len(texts) > _MOST_NUMBERS:
        half = _MOST_NUMBERS // 2
        texts = [*texts[:half], "...", *texts[-half:]]
    return ", ".join(texts)


def _parameters(part):
    parameters = part.estimator.get_params(deep=False)
    parameters.pop("ledger", None)  # it is named with the cost
    rows = tuple((name, shown(value)) for name, value in parameters.items() if value is not None)
    return Section(f"Parameters: {part.name}", (Table(("parameter", "value"), rows),))


def _not_covered(not_private=()):
    steps = tuple(f"what the step {name!r} has learned" for name in not_private)
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
