"""Measure the tables of the documentation, and write them into data files that the pages include.

    python examples/benchmarks/measured.py [NAME ...] [--trials N] [--folder docs/measured]

Without names, all tables are measured. Each has a function that takes a number of trials and
returns a `Table`. A file NAME.json keeps the numbers with their standard errors, the number of
trials, the commit, the CPU and the versions. A file NAME.md shows them on a page. Trials have fixed
seeds, so that a few of them can be measured again by a test.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy
import sklearn

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "docs" / "measured"
sys.path[:0] = [str(HERE), str(HERE.parent / "paper")]

from results import Number, Table  # noqa: E402
from timing import cpu  # noqa: E402


@dataclass(frozen=True)
class Source:
    """The function that measures a table, and how many trials the documentation has."""

    module: str
    function: str
    trials: int
    few_trials: int  # of a test; 0 if the numbers are times, or need other packages
    packages: tuple[str, ...] = ()  # other packages whose versions matter
    commit: str = ""  # an old one that today's code is compared with; not measured again

    def measure(self, trials: int) -> Table:
        """Return the table, measured with so many trials."""
        measure: Callable[[int], Table] = getattr(
            importlib.import_module(self.module), self.function
        )
        return measure(trials)


MODELS_OF_OTHERS = ("interpret-core", "diffprivlib")
LIBRARIES = ("opendp", "diffprivlib", "python-dp")
SOURCES = {
    # Accuracy
    "small_tables": Source("small_data", "measure_tables", 40, 4),
    "error_by_eps": Source("small_data", "measure_by_eps", 20, 0),
    "known_columns": Source("small_data", "measure_columns", 10, 1),
    "published": Source("published", "measure", 60, 4),
    "values": Source("values", "measure", 8, 0),
    "values_before": Source("values", "measure", 8, 0, commit="d87f686"),
    "extreme_values": Source("values", "measure_extremes", 100, 2),
    "delta": Source("delta", "measure", 40, 4),
    "model_cost": Source("utility", "measure", 20, 2),
    "expected_error": Source("expected_error", "measure", 30, 3),
    "enough_data": Source("enough_data", "measure", 60, 0),
    "remedies": Source("remedies", "measure", 40, 4),
    "advice": Source("advice", "measure", 20, 2),
    "auto_bins": Source("auto_bins", "measure", 5, 0),
    "text_columns": Source("text_columns", "measure", 50, 0),
    "segments": Source("segments", "measure", 20, 2),
    # Whole pipelines
    "models": Source("private_models", "measure_models_one", 20, 0, MODELS_OF_OTHERS),
    "models_half": Source("private_models", "measure_models_half", 20, 0, MODELS_OF_OTHERS),
    "strategies": Source("private_models", "measure_strategies_one", 40, 0),
    "strategies_half": Source("private_models", "measure_strategies_half", 40, 0),
    "budget_shares": Source("private_models", "measure_shares", 20, 0, MODELS_OF_OTHERS),
    "scalings": Source("private_models", "measure_scalings", 20, 0),
    "people": Source("people", "measure", 100, 20),
    # Privacy: samples instead of trials
    "audit": Source("audit", "measure", 6000, 0),
    # Other mechanisms and libraries
    "peers": Source("peers", "measure", 40, 0, LIBRARIES),
    "paper_eps": Source("paper_tables", "measure_eps", 20, 0),
    "paper_rho": Source("paper_tables", "measure_rho", 20, 0),
    "paper_bounds": Source("paper_tables", "measure_bounds", 20, 0),
    "paper_sanitize": Source("paper_tables", "measure_sanitize", 20, 0),
    # Speed: turns instead of trials
    "speed_fits": Source("speed", "measure_fits", 3, 0),
    "speed_functions": Source("speed", "measure_functions", 5, 0),
    "speed_transforms": Source("speed", "measure_transforms", 3, 0),
    "speed_people": Source("speed", "measure_people", 5, 0),
    "speed_segments": Source("speed", "measure_segments", 5, 0),
    "speed_ledger": Source("ledger_speed", "measure", 100, 0),
    "large_data": Source("large_data", "measure", 3, 0),
    "large_data_engines": Source("large_data", "measure_engines", 3, 0, ("dask", "pyspark")),
    "paper_times": Source("paper_tables", "measure_times", 3, 0),
}


def write(name: str, table: Table, folder: Path) -> None:
    """Write the two files of a table."""
    source = SOURCES[name]
    content = {
        "title": table.title,
        "script": f"examples/benchmarks/{source.module}.py",
        "trials": table.trials,
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu(),
        "versions": {
            "Python": ".".join(map(str, sys.version_info[:3])),
            "NumPy": np.__version__,
            "SciPy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            **{package: version(package) for package in source.packages},
        },
        "columns": list(table.columns),
        "rows": {label: list(map(_as_json, cells)) for label, cells in table.rows.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(as_markdown(content), encoding="utf-8")


def _as_json(cell):
    return asdict(cell) if isinstance(cell, Number) else cell


def _commit():
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def read(name: str, folder: Path = FOLDER) -> dict:
    """Return the content of the data file of a table."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def cells_of(content: dict) -> dict[str, list[Number | str]]:
    """Return the cells of each row of a data file."""
    return {
        label: [Number(**cell) if isinstance(cell, dict) else cell for cell in cells]
        for label, cells in content["rows"].items()
    }


def as_markdown(content: dict) -> str:
    """Return the table of a data file as Markdown, with a line on how it was measured."""
    first, *others = content["columns"]
    lines = [
        f"{content['title']}",
        "",
        f"| {first} | {' | '.join(others)} |",
        f"|---|{'---:|' * len(others)}",
        *(
            f"| {label} | {' | '.join(map(str, cells))} |"
            for label, cells in cells_of(content).items()
        ),
        "",
        f"<small>{_origin(content)}</small>",
    ]
    return "\n".join(lines) + "\n"


def _origin(content):
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    trials = f"{content['trials']} trials, ± standard error; " if content["trials"] > 1 else ""
    return (
        f"{trials}`{content['script']}` at commit {content['commit']}, {content['date']}; "
        f"{content['cpu']}; {versions}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SOURCES))
    parser.add_argument("--trials", type=int, help="instead of those of the documentation")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    unknown = set(options.names) - set(SOURCES)
    if unknown:
        parser.error(f"NAME must be one of {', '.join(SOURCES)}, got {', '.join(unknown)}.")

    warnings.simplefilter("ignore")
    for name in options.names or [name for name in SOURCES if not SOURCES[name].commit]:
        start = time.monotonic()
        source = SOURCES[name]
        write(name, source.measure(options.trials or source.trials), options.folder)
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        print((options.folder / f"{name}.md").read_text(encoding="utf-8"), flush=True)


if __name__ == "__main__":
    main()
