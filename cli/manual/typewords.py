"""Types in words, as people write their values in JSON: `a text`, `a list of whole numbers`, `running | error`."""

import enum
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Union, get_args, get_origin

import attrs

from common.locks import Lock
from common.opcodes.types import Reader
from common.shapes import OtherKind

_PLAIN: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    object: "anything",
    Lock: "lock",
    type(None): "null",
    None: "null",
}
_SCHEMA: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "object": "object",
    "array": "list",
    "boolean": "true or false",
}


def type_words(kind: object) -> str:
    """A type in words."""
    if (plain := _looked_up(kind)) is not None:
        return plain
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_words(each) for each in arguments))
    if isinstance(origin, type):
        return _container(origin, arguments)
    # a NewType
    if (base := getattr(kind, "__supertype__", None)) is not None:
        return type_words(base)
    return _class(kind)


def _looked_up(kind: object) -> str | None:
    try:
        return _PLAIN.get(kind)
    except TypeError:
        # a type that cannot be hashed
        return None


def _annotated(arguments: Sequence[object]) -> str:
    kind, *marks = arguments
    for mark in marks:
        if isinstance(mark, Reader) and (told := mark.schema.get("type")):
            names = told if isinstance(told, list) else [told]
            return " or ".join(_SCHEMA[str(name)] for name in names) + _bounds(mark.schema)
    return type_words(kind)


def _bounds(schema: Mapping[str, object]) -> str:
    if schema.get("minLength"):
        return " that is not empty"
    if "maximum" in schema:
        return f", {schema.get('minimum', 0)} to {schema['maximum']}"
    return f", at least {schema['minimum']}" if "minimum" in schema else ""


def _container(origin: type, arguments: Sequence[object]) -> str:
    if issubclass(origin, Mapping):
        return f"object of {_plural(type_words(arguments[1]))} by {type_words(arguments[0])}"
    if issubclass(origin, tuple) and arguments and arguments[-1] is not Ellipsis:
        return f"[{', '.join(map(type_words, arguments))}]"
    if issubclass(origin, Sequence | frozenset | set) and arguments:
        return f"list of {_plural(type_words(arguments[0]))}"
    return f"{origin.__name__} of {', '.join(map(type_words, arguments))}"


def _plural(words: str) -> str:
    head, comma, rest = words.partition(",")
    is_noun = head in {*_PLAIN.values(), "object", "list"} - {"anything", "true or false", "null"}
    return f"{head}s{comma}{rest}" if is_noun else words


def _class(kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " | ".join(f"`{member.value}`" for member in kind)
    if kind is OtherKind:
        return "another kind of object"
    name = getattr(kind, "__name__", str(kind))
    return name if isinstance(kind, type) and attrs.has(kind) else name.lower()
