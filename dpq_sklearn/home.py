"""The addresses of the documentation and of the repository. Set both when you publish the project.

An empty address makes no links: the package's page on an index, the "?" next to an estimator's name
in a notebook and the site then leave the link out.
"""

#: the address of the documentation that is built from docs/, such as
#: "https://example.org/dpq_sklearn"
DOCUMENTATION = ""
#: the address of the repository, such as "https://example.org/team/dpq_sklearn"
SOURCE = ""


def template_of_doc_links(documentation):
    """Return scikit-learn's template for the address of an estimator's page, or an empty text."""
    page = "{estimator_module}.{estimator_name}.html"
    return documentation and f"{documentation}/generated/{page}"
