"""Classes of ours and of plug-in packages: each package names its modules by entry points."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules(own: Iterable[str], group: str) -> Iterator[ModuleType]:
    """The modules with these names, and those that entry points of the group name."""
    yield from map(import_module, own)
    yield from (point.load() for point in entry_points(group=group))


def subclasses_in(module: ModuleType, base: type[T]) -> Iterator[type[T]]:
    """The subclasses that the module itself defines."""
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__:
            yield value
