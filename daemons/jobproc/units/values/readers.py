"""Changes of typed parameters: values come as JSON, or as text from a command line. Pure.

Source: wconfd.md 7.3, "Parameter groups"; cli.md.
"""

from collections.abc import Callable, Mapping
from typing import Final

from common.errors import PrerequisiteError
from common.sizes import read_mebibytes

# value that ends a parameter of one's own, so that the inherited one is in force
DEFAULT: Final = "default"
_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0")

# function: given value -> value; raises TypeError or ValueError
Reader = Callable[[object], object]


def changes_of(given: Mapping[str, object], readers: Mapping[str, Reader], what: str) -> dict[str, object]:
    """The given values by their parameters; None: the parameter is to be the inherited one.

    Args:
        readers: by the names of the known parameters.
        what: kind of parameters, for errors.
    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    changes: dict[str, object] = {}
    for name, value in given.items():
        read = readers.get(name)
        if read is None:
            known = f"known are {', '.join(readers)}" if readers else "there are none"
            raise PrerequisiteError(f"there is no {what} '{name:.40}'; {known}", "wrong_input")
        changes[name] = None if value == DEFAULT else _read(read, name, value, what)
    return changes


def changed(before: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Own parameters after these changes."""
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _read(read: Reader, name: str, value: object, what: str) -> object:
    try:
        return read(value)
    except (TypeError, ValueError):
        text = f"the {what} '{name}' cannot be {value!r:.60}: {_EXPECTED[read]} is expected"
        raise PrerequisiteError(text, "wrong_input") from None


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value)


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    read = float(value)
    if not 0 <= read < float("inf"):
        raise ValueError
    return read


def mebibytes(value: object) -> int:
    return read_mebibytes(value)


def truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = text(value).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError
    return word in _TRUE


_EXPECTED: Final[Mapping[Reader, str]] = {
    text: "text",
    whole: "a whole number",
    truth: "true or false",
    number: "a number from 0 on",
    mebibytes: "a size in MiB, or with a unit such as '2g',",
}
