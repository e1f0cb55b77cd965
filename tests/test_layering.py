"""A folder imports only from lower floors; no module but ``_checks`` stands at the top level of the package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "coordnet"

FLOORS = [
    {"_checks"},
    {"linalg"},
    {"sampling", "media"},
    {"encodings", "metrics"},
    {"networks", "priors"},
    {"fitting", "analysis"},
    {"restore", "plots"},
    {"comparison"},
    {"bench"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE)


def room(path):
    return path.relative_to(PACKAGE).parts[0]


def imported(path):
    """The rooms that a file imports from, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [node.module] if node.module != "coordnet" else [f"coordnet.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            assert name != "coordnet", f"{path}: the package itself, which is above every room"
            if name.startswith("coordnet."):
                yield name.split(".")[1]


def test_the_top_level_holds_rooms_alone():
    assert {p.stem for p in PACKAGE.glob("*.py")} <= {"__init__", "__main__", "_checks"}
    assert {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(FLOOR) - {"_checks"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_from_lower_floors_alone(path):
    own = room(path)
    for other in set(imported(path)) - {own}:
        assert FLOOR[other] < FLOOR[own], f"{own}, on floor {FLOOR[own]}, imports {other}, on {FLOOR[other]}"


def test_no_module_of_a_room_imports_itself_in_a_circle():
    edges = {}
    for path in MODULES:
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text())
        edges[name] = {n.module for n in tree.body if isinstance(n, ast.ImportFrom) and n.module} - {name}
    done, active = set(), []

    def visit(name):
        assert name not in active, f"a circle: {' -> '.join([*active, name])}"
        if name in edges and name not in done:
            active.append(name)
            for other in edges[name]:
                visit(other)
            active.pop()
            done.add(name)

    for name in edges:
        visit(name)


def test_start_is_light():
    """``coordnet --help`` does not wait for torch."""
    code = (
        "import sys; sys.argv = ['coordnet', '--help']; from coordnet.cli import main; main(); "
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'skimage'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
