"""The order of the gallery: from the first fit to the special questions."""

FIRST_TO_LAST = (
    "quickstart",
    "plot_private_bins",
    "plot_eps_search",
    "plot_how_many_bins",
    "plot_display",
    "plot_bounds",
    "plot_delta",
    "plot_private_pipeline",
    "spend_a_budget",
    "plot_ledger",
    "batches_and_dask",
)


class ReadingOrder:
    """A sort key for sphinx-gallery; what is not listed comes last, by name."""

    def __init__(self, source_folder):
        self.source_folder = source_folder

    def __call__(self, filename):
        name = filename.removesuffix(".py")
        place = FIRST_TO_LAST.index(name) if name in FIRST_TO_LAST else len(FIRST_TO_LAST)
        return place, name
