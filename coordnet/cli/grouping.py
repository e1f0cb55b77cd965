"""Groups of options: a command's dataclass arguments, whose fields typer sees as options of their own."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

UNRECORDED = {"signals", "workers", "dask", "out", "report", "force", "json", "quiet"} | {"settings", "inputs"}
UNRECORDED |= {"is_one_of_many"}


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that change the results of a command, by their names, as a record holds them."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        flat |= vars(value) if is_dataclass(value) else {name: value}
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in flat.items()}
    return {name: value for name, value in plain.items() if name not in UNRECORDED and value is not None}


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let typer see the fields of a command's dataclass arguments as options of the command itself."""
    parameters = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in parameters.items() if is_dataclass(p.annotation)}
    flat: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        options = _options(groups[name]) if name in groups else [parameter]
        flat += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in _options(group)})
        return command(**given)

    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in flat}
    return called


def _options(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass that are options; the others have no ``Annotated`` type."""
    return [p for p in inspect.signature(group).parameters.values() if get_origin(p.annotation) is Annotated]
