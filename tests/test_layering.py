"""A folder imports only from lower floors; no module but ``_checks`` stands at the top level of the package."""

import ast
import subprocess
import sys
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


def imported(text, names=NAMES):
    """The modules that a text imports, wherever in it the import stands; a name of a package alone stands for it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name in names or node.module == "coordnet" else node.module for name in found]
        else:
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in found:
            assert name != "coordnet", "an import of the package itself, which is above every room"
            if name.startswith("coordnet."):
                yield name


def circle(edges):
    """The names of a circle of imports; none if there is no circle."""
    done, active = set(), []

    def visit(name):
        if name in active:
            return [*active[active.index(name) :], name]
        if name in done or name not in edges:
            return []
        active.append(name)
        found = next(filter(None, map(visit, edges[name])), [])
        active.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, edges)), [])


def test_the_top_level_holds_rooms_alone():
    assert {p.stem for p in PACKAGE.glob("*.py")} <= {"__init__", "__main__", "_checks"}
    assert {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(FLOOR) - {"_checks"}


def test_modules_import_from_lower_floors_alone_and_never_in_a_circle():
    edges = {name: set(imported(path.read_text())) - {name} for name, path in NAMES.items()}
    for name, path in NAMES.items():
        for other in {other.split(".")[1] for other in edges[name]} - {room(path)}:
            own = FLOOR[room(path)]
            assert FLOOR[other] < own, f"{name}, on floor {own}, imports {other}, on {FLOOR[other]}"
    assert circle(edges) == []


def test_a_circle_through_an_import_in_a_function_is_seen():
    texts = {
        "coordnet.a": "from coordnet.b import f",
        "coordnet.b": "def f():\n    from coordnet import c",
        "coordnet.c": "import coordnet.a",
    }
    edges = {name: set(imported(text, texts)) for name, text in texts.items()}
    assert circle(edges) == ["coordnet.a", "coordnet.b", "coordnet.c", "coordnet.a"]
    assert circle({**edges, "coordnet.c": set()}) == []


def test_start_is_light():
    """``coordnet --help`` does not wait for torch."""
    code = (
        "import sys; sys.argv = ['coordnet', '--help']; from coordnet.cli import main; main(); "
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'skimage'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
