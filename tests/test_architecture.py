"""The layers of the package, and what else holds for all of its modules."""

import ast
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import dpq_sklearn

PACKAGE = Path(dpq_sklearn.__file__).parent
# A module imports from its own layer and from those before it in this list. Folders stand for all
# modules in them; a module or folder that is not listed belongs to the last layer.
LAYERS = [
    {"version", "home", "checks", "dates", "optional", "markup", "small_table", "composites"},
    {"engine", "accounting"},
    {"mechanisms", "ledger"},
    {"releases", "reading"},
    {"forecast"},
    {"estimators", "statistics"},
    {"reporting"},
]


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


class _WithoutTypeChecking(ast.NodeTransformer):
    def visit_If(self, node):
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_for_types else self.generic_visit(node)


def imported_modules(path):
    """Names of the package's modules that a file imports at run time, inside functions too."""
    for node in ast.walk(_WithoutTypeChecking().visit(ast.parse(path.read_text()))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpq_sklearn"):
            module = node.module.removeprefix("dpq_sklearn").removeprefix(".")
            if (PACKAGE / module.replace(".", "/")).is_dir():
                yield from (".".join(filter(None, (module, alias.name))) for alias in node.names)
            else:
                yield module
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (
                n.removeprefix("dpq_sklearn.") for n in names if n.startswith("dpq_sklearn")
            )


def layer(module):
    folder = module.split(".")[0]
    return next((i for i, names in enumerate(LAYERS) if folder in names), len(LAYERS) - 1)


def imports_by_module():
    """Return the modules of the package that each module of the package imports."""
    files = {module_name(p): p for p in PACKAGE.rglob("*.py") if p.stem != "__init__"}
    return {name: set(imported_modules(path)) for name, path in files.items()}


def test_modules_import_from_their_own_layer_and_from_lower_ones():
    imports = imports_by_module()
    for name, imported_names in imports.items():
        for imported in imported_names:
            assert imported in imports, f"{name} imports {imported}, which is no module"
            assert layer(imported) <= layer(name), f"{name} imports {imported}"


def test_imports_have_no_cycles():
    # Raises CycleError, which names the modules of the cycle.
    TopologicalSorter(imports_by_module()).prepare()


def methods_of(path, name):
    """Names of the methods of a class; the file is not imported, as an engine may be missing."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    (found,) = [node for node in classes if node.name == name]
    return {node.name for node in found.body if isinstance(node, ast.FunctionDef)}


def test_every_engine_implements_the_protocol_of_a_source():
    sources = PACKAGE / "reading" / "sources"
    protocol = methods_of(sources / "protocol.py", "Source")
    assert {"typed_rows", "read", "map_rows"} <= protocol
    for engine in ("memory", "dask", "spark"):
        assert protocol <= methods_of(sources / f"{engine}.py", f"{engine.title()}Source"), engine


def test_only_the_compat_module_imports_private_names_of_sklearn():
    allowed = {"_check_feature_names_in"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                private = {a.name for a in node.names if a.name.startswith("_")}
                assert path.stem == "compat" or private <= allowed, path.name


def test_import_needs_the_run_time_packages_only():
    code = "import sys, dpq_sklearn; print(sorted({m.split('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    optional = {"matplotlib", "dask", "distributed", "pyspark", "polars", "onnx", "skops"}
    optional |= {"psycopg"}
    assert not optional & set(ast.literal_eval(result.stdout))


def test_catalogue_is_sorted_and_importable():
    assert dpq_sklearn.__all__ == sorted(dpq_sklearn.__all__)
    assert all(hasattr(dpq_sklearn, name) for name in dpq_sklearn.__all__)


def test_the_walk_through_the_code_names_functions_that_exist():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    walk = text[text.index("## The way of the data") : text.index("## Words")]
    names = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_.]+)`", walk)
    modules = imports_by_module()
    assert len(names) > 12
    for name in names:
        parts = name.split(".")
        module = next(
            ".".join(parts[:end])
            for end in range(len(parts), 0, -1)
            if ".".join(parts[:end]) in modules
        )
        thing = importlib.import_module(f"dpq_sklearn.{module}")
        for part in parts[module.count(".") + 1 :]:
            thing = getattr(thing, part)


def test_files_that_the_guide_for_contributors_names_exist():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    names = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    assert len(names) > 25
    for name in names:
        assert (PACKAGE / name).exists() or (PACKAGE.parent / name).exists(), name


def test_pickles_name_the_public_path():
    for name in dpq_sklearn.__all__:
        public = getattr(dpq_sklearn, name)
        if isinstance(public, type):
            assert public.__module__ == "dpq_sklearn"
    assert b"estimators" not in pickle.dumps(dpq_sklearn.DPKBinsDiscretizer())


def test_public_signatures():
    """A change of the public API is made on purpose: this file changes with it."""
    signatures = {
        name: str(inspect.signature(public))
        for name, public in vars(dpq_sklearn).items()
        if name in dpq_sklearn.__all__ and not _is_error(public)
    }
    signatures |= {
        f"{name}.{method}": str(inspect.signature(function))
        for name in signatures
        if isinstance(getattr(dpq_sklearn, name), type)
        for method, function in inspect.getmembers(getattr(dpq_sklearn, name), inspect.isfunction)
        if not method.startswith("_") and function.__module__.startswith("dpq_sklearn")
    }
    pinned = Path(__file__).parent / "public_api.json"
    assert signatures == json.loads(pinned.read_text())


def _is_error(public):
    return isinstance(public, type) and issubclass(public, Exception)
