"""The reference that ``pdoc coordnet`` makes has every public name and renders its docstring as a NumPy docstring."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest
from pdoc import doc, extract, render

import coordnet

SECTIONS = ("parameters", "returns", "raises", "notes", "attributes")


def test_every_public_method_has_a_docstring_or_inherits_one():
    for found in pkgutil.walk_packages(coordnet.__path__, "coordnet."):
        own = {} if found.name.endswith("__main__") else vars(importlib.import_module(found.name))
        kinds = {name: kind for name, kind in own.items() if getattr(kind, "__module__", "") == found.name}
        for kind in (kind for name, kind in kinds.items() if inspect.isclass(kind) and not name.startswith("_")):
            methods = [name for name, part in vars(kind).items() if inspect.isfunction(part) and name[0] != "_"]
            assert all(inspect.getdoc(getattr(kind, name)) for name in methods), f"{found.name}.{kind.__name__}"


@pytest.fixture(scope="module")
def modules():
    """The modules that pdoc finds, by name. Its warnings are errors, as all warnings of the tests are."""
    return {name: doc.Module.from_name(name) for name in extract.walk_specs(["coordnet"])}


@pytest.fixture(scope="module")
def pages(modules):
    render.configure(show_source=False)
    return {name: render.html_module(module, modules) for name, module in modules.items()}


@pytest.mark.slow
def test_every_public_name_is_rendered(modules, pages):
    public = {name: getattr(coordnet, name) for name in coordnet.__all__}
    for name, value in public.items():
        if isinstance(value, ModuleType):
            names = [n for n in value.__all__ if not isinstance(getattr(value, n), ModuleType)]
            assert all(f'id="{n}"' in pages[value.__name__] for n in names), f"{name} is not rendered"
        else:
            assert f'id="{name}"' in pages["coordnet"], f"{name} is not rendered"
            assert modules["coordnet"].members[name].docstring, f"{name} has no docstring"


@pytest.mark.slow
def test_sections_of_docstrings_are_rendered_as_sections(pages):
    """Markdown, which pdoc takes where a module has no ``__docformat__``, makes headings of the page of them."""
    for name, page in pages.items():
        assert not any(f'<h2 id="{section}"' in page for section in SECTIONS), f"{name} lacks `__docformat__`"
    assert '<h6 id="parameters"' in pages["coordnet"]
