"""A small table, which reports and descriptions return if pandas is not installed."""

import numpy as np

from dpq_sklearn.markup import html_table, text_table
from dpq_sklearn.optional import optional_module


class SmallTable(dict):
    """Columns of equal length by name, with optional labels of the rows.

    ``table["name"]`` is a column, ``table[["name", "other"]]`` a table of some columns, and
    `to_pandas` makes a DataFrame of it.
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
        """Return the table as a DataFrame of pandas, which must be installed.

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
            Whether to begin with the labels of the rows, if there are some.

        Returns
        -------
        text : str
        """
        return text_table(self._rows(with_labels=index), str.rjust)

    def _rows(self, with_labels):
        """Return the texts of all cells in rows, the names of the columns first."""
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
    """Return the cells of a column as texts, floats with few digits."""
    cells = values.tolist() if isinstance(values, np.ndarray) else values
    return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells]
