"""What a checkout needs installed, by its ``pyproject.toml``, and what of it is missing."""

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]  # the folder of pyproject.toml, tests and notebooks


def missing(extras: Iterable[str] = ()) -> list[str]:
    """Return the requirements of the package, and of some of its extras, that are not installed, as pip takes them.

    ``ValueError`` is raised where the package is not in a checkout.
    """
    path = CHECKOUT / "pyproject.toml"
    if not path.is_file():
        raise ValueError(f"{path}: expected a checkout of coordnet, found an installed package")
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    needed = project["dependencies"] + [text for extra in extras for text in project["optional-dependencies"][extra]]
    return [text for text in dict.fromkeys(needed) if not _is_installed(text)]


def _is_installed(requirement: str) -> bool:
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    try:
        return needed.specifier.contains(version(needed.name), prereleases=True)
    except PackageNotFoundError:
        return False
