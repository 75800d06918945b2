"""What groups cost in time: 1,000,000 rows of 100,000 people, with and without groups in one run.

    python examples/benchmarks/people.py [--repetitions 7]

Processor time of a fit in one thread, the least of several.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from timing import compare, header, print_machine

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, PrivacyNoiseWarning

N_ROWS, N_PEOPLE = 1_000_000, 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore", PrivacyNoiseWarning)
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, N_PEOPLE, N_ROWS)
    texts = pd.Series(numbers).map("person {}".format)
    print_machine()
    header("fit with groups against fit without, processor time", "without")
    transformers = DPKBinsDiscretizer(5, encode="ordinal"), DPQuantileTransformer(63)
    for n_columns in (1, 10):
        X = rng.lognormal(size=(N_ROWS, n_columns))
        for transformer in transformers:
            for kind, groups in {"integers": numbers, "pandas text": texts}.items():
                compare(
                    f"{type(transformer).__name__}, {n_columns} columns, {kind}",
                    lambda t=transformer, X=X, groups=groups: t.fit(X, groups=groups),
                    lambda t=transformer, X=X: t.fit(X),
                    repetitions,
                    time.process_time,
                )


if __name__ == "__main__":
    main()
