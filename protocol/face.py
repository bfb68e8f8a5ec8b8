"""The requests that a daemon accepts, from its module, or all modules below its package."""

import importlib
import pkgutil
import types

from protocol.messages import AnyRequest, Request


def requests_of(face: types.ModuleType) -> list[type[AnyRequest]]:
    """The request classes, sorted by their methods' names.

    Args: face: such as `protocol.luxi`, or the one module `protocol.keeperd`.
    """
    below = pkgutil.walk_packages(getattr(face, "__path__", ()), f"{face.__name__}.")
    modules = (face, *(importlib.import_module(info.name) for info in below))
    values = [value for module in modules for value in vars(module).values()]
    # bases of requests have no method
    kinds = {value for value in values if isinstance(value, type) and issubclass(value, Request) and _has_method(value)}
    return sorted(kinds, key=lambda kind: kind.METHOD.lower())


def _has_method(kind: type[AnyRequest]) -> bool:
    return hasattr(kind, "METHOD")
