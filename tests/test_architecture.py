"""The reading order of the package: imports point upwards only."""

import ast
import subprocess
import sys
from pathlib import Path

import dpq_sklearn

PACKAGE = Path(dpq_sklearn.__file__).parent
READING_ORDER = [
    "_version",
    "_compat",
    "_random",
    "_grid",
    "_columns",
    "_ranks",
    "_summaries",
    "_exponential",
    "_accounting",
    "_aq",
    "_noise",
    "_ind_exp",
    "_agg_tree",
    "_joint_exp",
    "_auto",
    "_bounds",
    "_quantiles",
    "_expected_error",
    "_batches",
    "_base",
    "_discretizer",
    "_quantile_transformer",
    "_dask",
    "_displays",
    "_ledger_file",
    "_ledger_views",
    "_ledger",
    "_planning",
    "__init__",
]


def imported_modules(path):
    """Names of the package's modules that a file imports at its top."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpq_sklearn."):
            yield node.module.removeprefix("dpq_sklearn.")


def test_imports_point_upwards_only():
    assert sorted(READING_ORDER) == sorted(path.stem for path in PACKAGE.glob("*.py"))
    for position, name in enumerate(READING_ORDER):
        for imported in imported_modules(PACKAGE / f"{name}.py"):
            assert imported in READING_ORDER[:position], f"{name} imports {imported}"


def test_only_the_compat_module_imports_private_names_of_sklearn():
    allowed = {"_check_feature_names_in"}
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                private = {a.name for a in node.names if a.name.startswith("_")}
                assert path.stem == "_compat" or private <= allowed, path.name


def test_import_needs_the_run_time_packages_only():
    code = "import sys, dpq_sklearn; print(sorted({m.split('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    optional = {"matplotlib", "dask", "distributed", "polars", "onnx", "skops"}
    assert not optional & set(ast.literal_eval(result.stdout))


def test_catalogue_is_sorted_and_importable():
    assert dpq_sklearn.__all__ == sorted(dpq_sklearn.__all__)
    assert all(hasattr(dpq_sklearn, name) for name in dpq_sklearn.__all__)
