"""Where the project is at home, in one place: whoever publishes it sets these two addresses.

As long as an address is empty nothing links there: not the package's page on an index, not the "?"
beside an estimator's name in a notebook, not the site.
"""

#: where the site is served that docs/ is built to, such as "https://example.org/dpq_sklearn"
DOCUMENTATION = ""
#: the repository, such as "https://example.org/team/dpq_sklearn"
SOURCE = ""


def template_of_doc_links(documentation):
    """Return the address of an estimator's page, with what scikit-learn fills in, or ""."""
    page = "{estimator_module}.{estimator_name}.html"
    return documentation and f"{documentation}/generated/{page}"
