"""Hooks with which a converter reads and writes the shapes of `common.shapes`."""

import types
from collections.abc import Callable
from typing import Annotated, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from common.shapes import AS_IT_COMES, Lenient, OtherKind, OwnForm, Row, Tagged, TaggedRow

Hook = Callable[[object, object], object]
Writer = Callable[[object], object]


def expected(what: str, value: object) -> ValueError:
    """The error for a value of a wrong type, with the same wording everywhere."""
    text = repr(value)
    return ValueError(f"expected {what}, got {text if len(text) <= 60 else f'{text[:57]}...'}")


def register_shapes(converter: Converter) -> None:
    """Let a converter read and write these shapes; call it after the hooks that take them for ordinary ones."""
    _register_unchecked(converter)
    converter.register_structure_hook_func(_is_a(OwnForm), lambda value, kind: kind.from_wire(value))
    converter.register_unstructure_hook_func(_is_a(OwnForm), lambda value: value.to_wire())
    converter.register_structure_hook_factory(_is_a(Lenient), _lenient_reader)
    converter.register_unstructure_hook_factory(_is_a(Lenient), _lenient_writer)
    converter.register_structure_hook_factory(_is_a(Row), _row_reader)
    converter.register_unstructure_hook_factory(_is_a(Row), _row_writer)
    converter.register_structure_hook_factory(_is_a(TaggedRow), _tagged_row_reader)
    converter.register_unstructure_hook_factory(_is_a(TaggedRow), _tagged_row_writer)
    converter.register_structure_hook_factory(_is_a(Tagged), _tagged_reader)
    converter.register_unstructure_hook_factory(_is_a(Tagged), _tagged_writer)
    converter.register_unstructure_hook(OtherKind, lambda value: {"kind": value.kind, **value.values})
    converter.register_structure_hook_factory(_is_union_of(Tagged), _union_reader)
    converter.register_structure_hook_factory(_is_union_of(TaggedRow), _row_union_reader)


def _register_unchecked(converter: Converter) -> None:
    converter.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    converter.register_unstructure_hook_func(lambda kind: kind is object, converter.unstructure)
    converter.register_structure_hook_func(_is_unchecked, lambda value, _: _list(value))


def _is_a(base: type) -> Callable[[object], bool]:
    return lambda kind: isinstance(kind, type) and issubclass(kind, base)


def _is_unchecked(kind: object) -> bool:
    return get_origin(kind) is Annotated and AS_IT_COMES in get_args(kind)


def _members(kind: object) -> tuple[type, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()


def _is_union_of(base: type) -> Callable[[object], bool]:
    def holds(kind: object) -> bool:
        members = _members(kind)
        return bool(members) and all(member is OtherKind or _is_a(base)(member) for member in members)

    return holds


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise expected("a list", value)
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise expected("an object", value)
    return value


def _fields_reader(kind: type, converter: Converter) -> Hook:
    return cast(Hook, make_dict_structure_fn(kind, converter))


def _fields_writer(kind: type, converter: Converter) -> Callable[[object], dict[str, object]]:
    return cast(Callable[[object], dict[str, object]], make_dict_unstructure_fn(kind, converter))


def _lenient_reader(kind: type, converter: Converter) -> Hook:
    inner = cast(Hook, make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=False))
    return lambda value, _: inner(_object(value), kind)


def _lenient_writer(kind: type, converter: Converter) -> Writer:
    return cast(Writer, make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True))


def _row_reader(kind: type, converter: Converter) -> Hook:
    names = [field.name for field in attrs.fields(kind)]
    inner = _fields_reader(kind, converter)

    def read(value: object, _: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != len(names):
            raise expected(f"a list of {', '.join(names)}", value)
        return inner(dict(zip(names, value, strict=True)), kind)

    return read


def _row_writer(kind: type, converter: Converter) -> Writer:
    inner = _fields_writer(kind, converter)
    return lambda value: list(inner(value).values())


def _tagged_row_reader(kind: type[TaggedRow], converter: Converter) -> Hook:
    inner = _row_reader(kind, converter)

    def read(value: object, _: object) -> object:
        if _tag_of(value) is not kind.TAG:
            raise expected(f"a list that begins with {kind.TAG!r}", value)
        return inner(_list(value)[1:], kind)

    return read


def _tagged_row_writer(kind: type[TaggedRow], converter: Converter) -> Writer:
    inner = _fields_writer(kind, converter)
    return lambda value: [kind.TAG, *inner(value).values()]


def _tag_of(value: object) -> bool | None:
    tag = value[0] if isinstance(value, list) and value else None
    return tag if isinstance(tag, bool) else None


def _tagged_reader(kind: type[Tagged], converter: Converter) -> Hook:
    inner = _fields_reader(kind, converter)

    def read(value: object, _: object) -> object:
        rest = dict(_object(value))
        name = rest.pop("kind", None)
        if name != kind.KIND:
            raise expected(f"the kind {kind.KIND!r}", name)
        return inner(rest, kind)

    return read


def _tagged_writer(kind: type[Tagged], converter: Converter) -> Writer:
    inner = _fields_writer(kind, converter)
    return lambda value: {"kind": kind.KIND, **inner(value)}


def _union_reader(kind: object, converter: Converter) -> Hook:
    members = [member for member in _members(kind) if issubclass(member, Tagged)]
    readers = {member.KIND: _fields_reader(member, converter) for member in members}
    takes_others = OtherKind in _members(kind)

    def read(value: object, _: object) -> object:
        rest = dict(_object(value))
        name = rest.pop("kind", None)
        reader = readers.get(name) if isinstance(name, str) else None
        if reader is not None:
            return reader(rest, kind)
        if takes_others and isinstance(name, str):
            return OtherKind(name, rest)
        raise expected(f"a kind of {', '.join(readers)}", name)

    return read


def _row_union_reader(kind: object, converter: Converter) -> Hook:
    members = [member for member in _members(kind) if issubclass(member, TaggedRow)]
    readers = {member.TAG: _row_reader(member, converter) for member in members}

    def read(value: object, _: object) -> object:
        tag = _tag_of(value)
        if tag not in readers:
            raise expected(f"a list that begins with one of {', '.join(map(repr, readers))}", value)
        return readers[tag](_list(value)[1:], kind)

    return read
