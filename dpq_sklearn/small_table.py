"""A small table, which reports and descriptions return if pandas is not installed."""

import numpy as np

from dpq_sklearn.markup import html_table, text_table
from dpq_sklearn.optional import optional_module


class SmallTable(dict):
    """A dict of columns of equal length, with optional labels of the rows.

    ``table["name"]`` is a column, and ``table[["name", "other"]]`` is a table of some columns.
    `to_pandas` converts the table to a DataFrame.
    """

    def __init__(self, columns, labels=None):
        super().__init__(columns)
        self.labels = labels

    def __getitem__(self, key):
        if isinstance(key, list):
            return SmallTable({name: self[name] for name in key}, self.labels)
        return super().__getitem__(key)

    @property
    def columns(self):
        """The names of the columns."""
        return list(self)

    def to_pandas(self):
        """Return the table as a pandas DataFrame, which requires pandas.

        Returns
        -------
        table : pandas.DataFrame
        """
        pandas = optional_module("pandas", "to_pandas", "pandas")
        return pandas.DataFrame(dict(self), index=self.labels)

    def to_string(self, index=True):
        """Return the table as text.

        Parameters
        ----------
        index : bool, default=True
            Whether to print the labels of the rows, if there are any.

        Returns
        -------
        text : str
        """
        return text_table(self._rows(with_labels=index), str.rjust)

    def _rows(self, with_labels):
        """Return the texts of all cells, row by row. The first row has the names of the columns."""
        columns = [[str(name), *_texts(values)] for name, values in self.items()]
        if with_labels and self.labels is not None:
            columns.insert(0, ["", *map(str, self.labels)])
        return list(zip(*columns, strict=True))

    def __repr__(self):
        return self.to_string()

    def _repr_html_(self):
        headings, *rows = self._rows(with_labels=True)
        return html_table(rows, headings)


def _texts(values):
    """Return the cells of a column as texts, with up to six significant digits of floats."""
    cells = values.tolist() if isinstance(values, np.ndarray) else values
    return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells]
