"""A folder imports only from lower floors; no module but ``_checks`` stands at the top level of the package."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "coordnet"

FLOORS = [
    {"_checks"},
    {"linalg"},
    {"sampling", "media"},
    {"encodings", "metrics"},
    {"networks"},
    {"plans"},
    {"priors"},
    {"fitting", "analysis", "noise"},
    {"restore", "plots", "interop"},
    {"comparison", "xarray"},
    {"bench"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE)


NAMES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES
}


def room(path):
    return path.relative_to(PACKAGE).parts[0]


def imported(text):
    """The modules that a text imports, wherever in it the import stands; a name of a package alone stands for it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name in NAMES or node.module == "coordnet" else node.module for name in found]
        else:
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in found:
            assert name != "coordnet", "an import of the package itself, which is above every room"
            if name.startswith("coordnet."):
                yield name


def test_the_top_level_holds_rooms_alone():
    assert {p.stem for p in PACKAGE.glob("*.py")} <= {"__init__", "__main__", "_checks"}
    assert {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(FLOOR) - {"_checks"}


def test_modules_import_from_lower_floors_alone_and_never_in_a_circle():
    edges = {name: set(imported(path.read_text())) - {name} for name, path in NAMES.items()}
    for name, path in NAMES.items():
        for other in {other.split(".")[1] for other in edges[name]} - {room(path)}:
            own = FLOOR[room(path)]
            assert FLOOR[other] < own, f"{name}, on floor {own}, imports {other}, on {FLOOR[other]}"
    TopologicalSorter(edges).prepare()  # raises where modules import themselves in a circle


def test_start_is_light():
    """``coordnet --help`` does not wait for torch."""
    code = (
        "import sys; sys.argv = ['coordnet', '--help']; from coordnet.cli import main; main(); "
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'skimage'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
