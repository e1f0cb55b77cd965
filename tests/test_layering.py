"""A module imports only from storeys above its own, as the design has it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "coordnet"

STOREYS = [
    {
        "_checks",
        "windows",
        "kronecker",
        "precision",
        "stages",
        "cuda_graphs",
        "cosines",
        "solvers",
        "mapped",
        "allocation",
        "cache",
        "scratch",
        "tracking",
        "centred",
        "coordinates",
        "samples",
        "sampling",
        "metrics",
    },
    {"encoders", "blending"},
    {
        "encodings",
        "banded",
        "fourier_layer",
        "heads",
        "networks",
        "attention",
        "modes",
        "fourier_modes",
        "priors",
        "observations",
        "extension",
        "systems",
    },
    {
        "reconstruction",
        "plans",
        "plan_cache",
        "fused",
        "streaming",
        "least_squares",
        "regularized",
        "adaptive",
        "hold_out",
        "learning",
        "rowwise",
        "closed_form",
        "predictions",
        "gradient",
        "tuning",
        "denoising",
    },
    {"analysis", "baselines"},
    {"media", "plotting", "plots_analysis", "plots_restoration", "plots_comparison", "experiments", "cli"},
]
STOREY = {name: i for i, names in enumerate(STOREYS) for name in names}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def top(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path):
    """The names of coordnet's own top modules that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [node.module] if node.module != "coordnet" else [f"coordnet.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        yield from (n.split(".")[1] for n in names if n and n.startswith("coordnet."))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path):
    own = top(path)
    assert own in STOREY, f"{own} has no storey: give it one"
    for name in imported(path):
        assert STOREY[name] <= STOREY[own], f"{own} imports {name}, which is below it"


def test_no_cycles():
    edges = {m: {n for p in MODULES if top(p) == m for n in imported(p)} - {m} for m in STOREY}
    done, active = set(), []

    def visit(name):
        assert name not in active, f"a cycle: {' -> '.join([*active, name])}"
        if name not in done:
            active.append(name)
            for other in edges[name]:
                visit(other)
            active.pop()
            done.add(name)

    for name in edges:
        visit(name)


def test_start_is_light():
    """``coordnet --help`` does not wait for torch."""
    import subprocess
    import sys

    code = (
        "import sys; sys.argv = ['coordnet', '--help']; from coordnet.cli import main; main(); "
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'skimage'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
