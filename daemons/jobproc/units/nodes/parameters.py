"""Changing the parameters of one node: values come as JSON, or as text from a command line. Pure.

Source: wconfd.md 7.3, "Parameter groups"; cli.md.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.objects.params import PartialNdParams

# value that removes the node's own one, so that its group's or the cluster's is in force
DEFAULT: Final = "default"
_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0")


def changed_parameters(before: PartialNdParams, given: Mapping[str, object]) -> PartialNdParams:
    """The node's own parameters with these changes.

    Raises: PrerequisiteError: an unknown name, a wrong value, or a parameter of the whole cluster.
    """
    changes: dict[str, object] = {}
    for name, value in given.items():
        if name == "exclusive_storage":
            raise PrerequisiteError(f"'{name}' is for whole groups or the cluster, not for one node", "wrong_input")
        read = _READERS.get(name)
        if read is None:
            raise PrerequisiteError(f"there is no node parameter '{name}'; {_KNOWN}", "wrong_input")
        changes[name] = None if value == DEFAULT else _read(read, name, value)
    return attrs.evolve(before, **changes)  # type: ignore[arg-type]  # the readers give the types of the fields


def _read(read: Callable[[object], object], name: str, value: object) -> object:
    try:
        return read(value)
    except (TypeError, ValueError):
        text = f"the node parameter '{name}' cannot be {value!r:.60}: {_EXPECTED[read]} is expected"
        raise PrerequisiteError(text, "wrong_input") from None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = _text(value).lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError
    return text in _TRUE


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "oob_program": _text,
    "spindle_count": _whole,
    "ovs": _truth,
    "ovs_name": _text,
    "ovs_link": _text,
    "ssh_port": _whole,
    "cpu_speed": _number,
}
_KNOWN: Final = f"known are {', '.join(_READERS)}"
_EXPECTED: Final[Mapping[Callable[[object], object], str]] = {
    _text: "text",
    _whole: "a whole number",
    _truth: "true or false",
    _number: "a number from 0 on",
}
