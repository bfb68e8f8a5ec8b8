"""Bodies of requests: an object, and its old names.

Source: rapi.md 3.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from common.errors import InvalidRequest

T = TypeVar("T")

_WORDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    type(None): "null",
}


def object_of(body: object) -> dict[str, object]:
    """The body, which must be an object. Raises: InvalidRequest: it is none, or there is no body."""
    if not isinstance(body, dict):
        raise InvalidRequest(f"the body must be a JSON object, got {word_for(body)}")
    return body


def optional_object(body: object) -> dict[str, object]:
    """The body; no body is an empty object. Raises: InvalidRequest: it is no object."""
    return {} if body is None else object_of(body)


def member(body: Mapping[str, object], name: str, kind: type[T], default: T) -> T:
    """A member of an object; null and absence mean the default. Raises: InvalidRequest: it has another type."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequest(f"'{name}' in the body must be {_WORDS[kind]}, got {word_for(value)}")
    return value


def check_names(body: Mapping[str, object], known: Iterable[str]) -> None:
    """Raises: InvalidRequest: the object has other members."""
    unknown = sorted(body.keys() - set(known))
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidRequest(f"the body has unknown parameters: {names}; known are {', '.join(known)}")


def renamed(body: Mapping[str, object], renames: Mapping[str, str]) -> dict[str, object]:
    """The object with new names for old ones.

    Raises: InvalidRequest: it has a parameter under both names.
    """
    for old, new in renames.items():
        if old in body and new in body:
            raise InvalidRequest(f"the body has both '{old}' and '{new}', which are the same; leave one out")
    return {renames.get(name, name): value for name, value in body.items()}


def word_for(value: object) -> str:
    """The kind of a JSON value in words."""
    return _WORDS.get(type(value), "something else")
