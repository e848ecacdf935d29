"""The direction of imports (docs/architecture.md), read off the source with `ast`; nothing is imported."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

# A room imports only from rooms above its line; rooms on one line do not import each other.
ROOMS = [
    ["errors"],
    ["files"],
    ["kernels"],
    ["vocabulary", "ratings", "divergences", "metrics"],
    ["scales", "links"],
    ["problem"],
    ["progress"],
    ["solvers"],
    ["sampler"],
    ["models"],
    ["regularization"],
    ["plan"],
    ["fitting"],
    ["tables"],
    ["encode"],
    ["estimators"],
    ["datasets", "splits"],
    ["baselines", "raters", "plots", "spark"],
    ["tuning"],
    ["evaluate"],
    ["paper", "report", "serve"],
    ["cli"],
    ["__main__"],
]
LINE = {room: line for line, rooms in enumerate(ROOMS) for room in rooms}

# Libraries that only some rooms may know, and everything that the kernels may know.
ONLY_IN = {
    "pandas": {"tables", "datasets", "spark"},
    "polars": {"tables", "datasets", "spark"},
    "narwhals": {"tables", "datasets", "spark"},
    "pyarrow": {"tables", "datasets", "spark"},
    "matplotlib": {"plots"},
}
# (llvmlite is numba's own; joblib counts the cores that a process may use.)
KERNELS_MAY_IMPORT = {"numpy", "numba", "llvmlite", "joblib", *sys.stdlib_module_names}


@dataclass(frozen=True)
class Import:
    """One imported module, as it stands in one line of one file."""

    module: str  # the importing module, "cmtrf.solvers.joint"
    is_package: bool  # the importing file is an __init__.py
    target: str  # "cmtrf.kernels.table", "numpy.typing"
    line: int
    late: bool  # inside a function

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


Tree = dict[str, list[Import]]


def read_tree(source: Path) -> Tree:
    """Every module under ``source/cmtrf``, with what it imports."""
    files = {}
    for path in sorted((source / "cmtrf").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {module: list(read_imports(module, path, files.keys())) for module, path in files.items()}


def read_imports(module: str, path: Path, modules: set[str]) -> Iterator[Import]:
    is_package = path.name == "__init__.py"

    def visit(node: ast.AST, late: bool) -> Iterator[Import]:
        for target in name_targets(node, module, is_package, modules):
            yield Import(module, is_package, target, node.lineno, late)
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, late)

    yield from visit(ast.parse(path.read_text("utf-8")), late=False)


def name_targets(node: ast.AST, module: str, is_package: bool, modules: set[str]) -> list[str]:
    """Full names of the modules that a node imports; ``from a import b`` is a.b where that is a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = node.module or ""
        if node.level:
            parents = module.split(".")
            parents = parents[: len(parents) - node.level + is_package]
            origin = ".".join([*parents, origin] if origin else parents)
        names = [f"{origin}.{alias.name}" for alias in node.names]
        return list(dict.fromkeys(name if name in modules else origin for name in names))
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__"}:
            return [str(node.args[0].value)]
    return []


def find_room(module: str) -> str:
    """The room of one of our modules, "" for the package's own __init__."""
    return module.split(".")[1] if "." in module else ""


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "cmtrf"


def list_imports(tree: Tree) -> list[Import]:
    return [found for imports in tree.values() for found in imports]


def find_unknown_rooms(tree: Tree) -> list[str]:
    return [f"{module} is in no room of the map" for module in tree if find_room(module) not in {*LINE, ""}]


def find_wrong_directions(tree: Tree) -> list[str]:
    """Imports of a room that is not above; the package's own __init__ may import any, and only `cli` it."""
    wrong = []
    for found in list_imports(tree):
        room = find_room(found.module)
        if not is_ours(found.target) or room not in LINE:
            continue
        target = find_room(found.target)
        if target not in LINE:
            allowed = target == "" and room in {"cli", "__main__"}
        else:
            allowed = target == room or LINE[target] < LINE[room]
        if not allowed:
            wrong.append(str(found))
    return wrong


def find_cycles(tree: Tree) -> list[str]:
    """Rings of modules that import each other when they are loaded."""
    graph = {
        module: {found.target for found in imports if found.target in tree and not found.late}
        for module, imports in tree.items()
    }
    cycles, done = [], set()

    def follow(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            cycles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in sorted(graph[module]):
                follow(target, (*path, module))
            done.add(module)

    for module in graph:
        follow(module, ())
    return cycles


def find_late_imports(tree: Tree) -> list[str]:
    return [
        str(found)
        for found in list_imports(tree)
        if found.late and is_ours(found.target) and not found.is_package and find_room(found.module) != "cli"
    ]


def find_stray_libraries(tree: Tree) -> list[str]:
    return [
        str(found)
        for found in list_imports(tree)
        if (library := found.target.split(".")[0]) in ONLY_IN and find_room(found.module) not in ONLY_IN[library]
    ]


def find_stray_kernel_imports(tree: Tree) -> list[str]:
    return [
        str(found)
        for found in list_imports(tree)
        if find_room(found.module) == "kernels"
        and not is_ours(found.target)
        and found.target.split(".")[0] not in KERNELS_MAY_IMPORT
    ]


RULES = [
    find_unknown_rooms,
    find_wrong_directions,
    find_cycles,
    find_late_imports,
    find_stray_libraries,
    find_stray_kernel_imports,
]


@pytest.fixture(scope="module")
def tree() -> Tree:
    return read_tree(SOURCE)


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(tree, rule):
    assert rule(tree) == []


def test_the_whole_package_was_read(tree):
    assert {"cmtrf.errors", "cmtrf.kernels.table", "cmtrf.datasets.demo"} <= tree.keys()
    assert any(found.target == "numpy" for found in list_imports(tree))


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_direction_is_told_as_it_is(page):
    told = (ROOT / page).read_text("utf-8").split("\n\n`errors` < ")[1].split("\n\n")[0]
    lines = [re.findall(r"`(\w+)`", line) for line in f"`errors` < {told}".split(" <")]
    assert lines == [rooms for rooms in ROOMS if rooms != ["__main__"]]


def test_the_map_in_the_docs_is_the_tree():
    block = (ROOT / "docs/architecture.md").read_text("utf-8").split("```text\nsrc/cmtrf/\n")[1].split("```")[0]
    told, folder = set(), ""
    for line in block.splitlines():
        name = line.split()[0]
        if name.endswith("/"):
            folder = name
        else:
            told.add(name if line.startswith("  " + name) else folder + name)
    package = SOURCE / "cmtrf"
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert told == {name for name in found if name == "__init__.py" or not name.endswith("__init__.py")}


def test_what_the_table_of_equations_names_exists():
    rows = re.findall(r"^\|.*\| `(\S+\.py)` \| (.*)\|$", (ROOT / "docs/method.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 10
    for file, names in rows:
        text = (SOURCE / "cmtrf" / file).read_text("utf-8")
        for name in re.findall(r"`([\w.]+)`", names):
            for part in name.split("."):
                assert re.search(rf"(def|class) {part}\b", text), f"{file} has no {part}"


# What each rule has to find in a tree that breaks it: {file: its text}, and what is said.
BROKEN = [
    (find_unknown_rooms, {"helpers.py": ""}, "cmtrf.helpers is in no room of the map"),
    (find_unknown_rooms, {"utils/text.py": ""}, "cmtrf.utils.text is in no room of the map"),
    (
        find_wrong_directions,
        {"solvers/joint.py": "from cmtrf.estimators import CMTRF", "estimators.py": ""},
        "cmtrf.solvers.joint:1 imports cmtrf.estimators",
    ),
    (
        find_wrong_directions,
        {"metrics.py": "import cmtrf.ratings", "ratings.py": ""},
        "cmtrf.metrics:1 imports cmtrf.ratings",
    ),
    (
        find_wrong_directions,
        {"scales/margin.py": "from ..solvers.base import State", "solvers/base.py": ""},
        "cmtrf.scales.margin:1 imports cmtrf.solvers.base",
    ),
    (
        find_wrong_directions,
        {"models/base.py": "from cmtrf import load"},
        "cmtrf.models.base:1 imports cmtrf",
    ),
    (
        find_wrong_directions,
        {"kernels/cpu.py": "if TYPE_CHECKING:\n    from cmtrf.ratings import Ratings", "ratings.py": ""},
        "cmtrf.kernels.cpu:2 imports cmtrf.ratings",
    ),
    (
        find_cycles,
        {"scales/margin.py": "from . import width", "scales/width.py": "from cmtrf.scales.margin import fit"},
        "cmtrf.scales.margin -> cmtrf.scales.width -> cmtrf.scales.margin",
    ),
    (
        find_late_imports,
        {"fitting.py": "def fit():\n    from cmtrf.problem import Problem", "problem.py": ""},
        "cmtrf.fitting:2 imports cmtrf.problem",
    ),
    (
        find_late_imports,
        {"plots.py": "def draw():\n    return import_module('cmtrf.tables')", "tables.py": ""},
        "cmtrf.plots:2 imports cmtrf.tables",
    ),
    (
        find_stray_libraries,
        {"metrics.py": "def show():\n    import pandas as pd"},
        "cmtrf.metrics:2 imports pandas",
    ),
    (
        find_stray_libraries,
        {"report/page.py": "from matplotlib.figure import Figure"},
        "cmtrf.report.page:1 imports matplotlib.figure",
    ),
    (
        find_stray_kernel_imports,
        {"kernels/cpu.py": "import scipy.linalg"},
        "cmtrf.kernels.cpu:1 imports scipy.linalg",
    ),
]


def write_tree(folder: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        path = folder / "cmtrf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return read_tree(folder)


@pytest.mark.parametrize(("rule", "files", "said"), BROKEN)
def test_a_broken_rule_is_found(tmp_path: Path, rule: Callable[[Tree], list[str]], files: dict[str, str], said: str):
    assert rule(write_tree(tmp_path, files)) == [said]


def test_what_is_allowed_is_not_reported(tmp_path):
    files = {
        "__init__.py": "from cmtrf.estimators import CMTRF\ndef __getattr__(name):\n    import cmtrf.plots",
        "errors.py": "from sklearn.exceptions import ConvergenceWarning",
        "kernels/table.py": "import numpy as np\nfrom cmtrf.errors import CmtrfError",
        "kernels/cpu.py": "import os\nfrom numba import njit\nfrom .table import Kernels",
        "tables.py": "def read():\n    import polars",
        "estimators.py": "import cmtrf.tables\nfrom cmtrf.kernels import table",
        "plots.py": "import matplotlib\nfrom cmtrf.estimators import CMTRF",
        "cli/main.py": "def demo():\n    from cmtrf import CMTRF\n    from cmtrf.plots import scales",
        "__main__.py": "from cmtrf.cli.main import main",
    }
    tree = write_tree(tmp_path, files)
    assert [said for rule in RULES for said in rule(tree)] == []
