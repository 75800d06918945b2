"""Counted columns: the sources of counts.

A plan calls `count` once, after the price is paid. The column is checked already.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dpq_sklearn.engine.ranks import sums_of_weights
from dpq_sklearn.reading.categories import count_columns
from dpq_sklearn.reading.containers import read_matrix
from dpq_sklearn.reading.groups import weights_and_number


@dataclass(frozen=True)
class Rows:
    """The rows of a column or table, and their groups, or None."""

    x: object
    groups: object = None

    def count(self):
        """Return the number of rows, or of people, as an array of one count."""
        return np.array([weights_and_number(n_rows(self.x), self.groups)[1]])


@dataclass(frozen=True)
class Histogram:
    """The bins of one column between ascending edges."""

    x: object
    edges: np.ndarray
    groups: object = None

    def count(self):
        """Return the number of rows in each bin, or with groups their weight."""
        values = read_matrix(self.x)[:, 0].astype(np.float64)
        weights, _ = weights_and_number(values.size, self.groups)

        # The last bin includes both of its ends. NaN are sorted after it.
        edges = np.append(self.edges[:-1], np.nextafter(self.edges[-1], np.inf))
        bins = np.searchsorted(edges, values, side="right")
        return sums_of_weights(bins, weights, edges.size + 1)[1:-1]


@dataclass(frozen=True)
class Labels:
    """One column of labels, and the public keys to be counted."""

    x: object
    groups: object = None
    keys: tuple = ()

    def count(self):
        """Return the number of records with each of the public keys."""
        (counts,) = self.count_categories()
        return np.array([counts[key] for key in self.keys])

    def count_categories(self):
        """Return a list of one item: the number of records with each label."""
        return count_columns(self.x, self.groups)


def n_rows(x):
    """Return the number of rows of a column or a table."""
    return x.shape[0] if sparse.issparse(x) else len(x)
