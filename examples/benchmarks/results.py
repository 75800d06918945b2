"""Results of measurements: tables of means with their standard errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Number:
    """A mean with its standard error, which is 0 for numbers that no chance decides."""

    mean: float
    error: float
    decimals: int

    @classmethod
    def of(cls, trials, decimals: int) -> "Number":
        """Return the mean of independent trials; NaN is shown as a dash."""
        trials = np.asarray(trials, dtype=float)
        error = trials.std(ddof=1) / np.sqrt(trials.size) if trials.size > 1 else 0.0
        return cls(float(trials.mean()), float(error), decimals)

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "-"
        error = f" ± {self.error:.{self.decimals}f}" if self.error else ""
        return f"{self.mean:.{self.decimals}f}{error}"


@dataclass(frozen=True)
class Table:
    """A table of numbers and words, with a sentence on what it shows."""

    title: str
    columns: Sequence[str]  # the first one is that of the labels
    rows: Mapping[str, Sequence[Number | str]]
    trials: int  # of each number
