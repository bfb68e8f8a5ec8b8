"""Convert JSON to typed values and back, with one strict converter for messages, opcodes and files.

cattrs alone is lenient (`int("5")`, `str(5)`); here a wrong type is an error that
names the place. Numbers follow Ganeti: a fraction is rounded where an integer is wanted.

Source: luxid.md 1.4 and 2.1.
"""

import enum
import re
import types
from collections.abc import Callable
from typing import Annotated, Final, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import BaseConverter, Converter, transform_error
from cattrs.cols import (
    homogenous_tuple_structure_factory,
    is_mapping,
    is_sequence,
    list_structure_factory,
    mapping_structure_factory,
)
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from cattrs.v import format_exception

from common.errors import GantryError, InvalidRequest
from common.ids import JobId
from common.locks import Lock, LockLevel, LockRequest, asked_lock, parse_lock
from common.shapes import AS_IT_COMES, Lenient, OtherKind, OwnForm, Row, TaggedObject, TaggedRow

# Hooks with which a converter reads and writes the shapes of `common.shapes`.


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
    converter.register_structure_hook_factory(_is_a(TaggedObject), _tagged_reader)
    converter.register_unstructure_hook_factory(_is_a(TaggedObject), _tagged_writer)
    converter.register_unstructure_hook(OtherKind, lambda value: {"kind": value.kind, **value.values})
    converter.register_structure_hook_factory(_is_union_of(TaggedObject), _union_reader)
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


def _tagged_reader(kind: type[TaggedObject], converter: Converter) -> Hook:
    inner = _fields_reader(kind, converter)

    def read(value: object, _: object) -> object:
        rest = dict(_object(value))
        name = rest.pop("kind", None)
        if name != kind.KIND:
            raise expected(f"the kind {kind.KIND!r}", name)
        return inner(rest, kind)

    return read


def _tagged_writer(kind: type[TaggedObject], converter: Converter) -> Writer:
    inner = _fields_writer(kind, converter)
    return lambda value: {"kind": kind.KIND, **inner(value)}


def _union_reader(kind: object, converter: Converter) -> Hook:
    members = [member for member in _members(kind) if issubclass(member, TaggedObject)]
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


T = TypeVar("T")


def structure(value: object, kind: type[T], what: str = "request") -> T:
    """Read JSON-able `value` as a `kind`; unknown keys and wrong types are refused.

    Raises: InvalidRequest: `invalid WHAT: expected int, got 'x' @ $.ops[0].priority`.
    """
    try:
        return _fast.structure(value, kind)
    except Exception:
        return explain(_detailed, value, kind, what)


def unstructure(value: object) -> object:
    """The JSON-able form of a typed value; absent optional keys stay absent where the class says so."""
    return _fast.unstructure(value)


def read_asked(value: object, kind: type[T]) -> T:
    """Read what a user asks for, whichever way it came.

    Raises: InvalidRequest: each fault after its path: `jobs[3].labels: expected an object, got 5`.
    """
    try:
        return _fast.structure(value, kind)
    except Exception as error:
        raise InvalidRequest("; ".join(problems(_detailed, value, kind, ""))) from error


def explain(detailed: Converter, value: object, kind: type[T], what: str) -> T:
    """Read a refused value again, for an error that names all problems and their places.

    Raises: InvalidRequest: as `structure`.
    """
    try:
        return detailed.structure(value, kind)
    except Exception as error:
        problems = transform_error(error, format_exception=_describe)
        raise InvalidRequest(f"invalid {what}: {'; '.join(problems)}") from error


def problems(detailed: Converter, value: object, kind: object, path: str) -> list[str]:
    """All faults of a value, each after its place below `path`: `disks[0].size: ...`; empty if it can be read."""
    try:
        detailed.get_structure_hook(kind)(value, kind)
    except Exception as error:
        return [_path_first(problem) for problem in transform_error(error, path=path, format_exception=_describe)]
    return []


def _path_first(problem: str) -> str:
    said, _, path = problem.rpartition(" @ ")
    path = path.removeprefix(".")
    return f"{path}: {said}" if path else said


def _describe(error: BaseException, kind: type | None) -> str:
    if isinstance(error, GantryError):
        return error.message
    if isinstance(error, TypeError | ValueError) and error.args and str(error.args[0]).startswith("expected"):
        return str(error.args[0])
    if isinstance(error, ForbiddenExtraKeysError):
        return f"unknown key {', '.join(repr(key) for key in sorted(error.extra_fields))}"
    if isinstance(error, KeyError):
        return f"required key {error.args[0]!r} is missing"
    return format_exception(error, kind)


_INT_END: Final = 2**63
# longer texts are refused before the conversion
_ID_DIGITS: Final = len(str(_INT_END))


def _int(value: object, _: object) -> int:
    # this form refuses nan as well; files, databases and other languages have no larger integers
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _INT_END:
        raise expected("int", value)
    return value if isinstance(value, int) else round(value)


def _float(value: object, _: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("number", value)
    return value


def _str(value: object, _: object) -> str:
    return read_text(value)


def read_text(value: object) -> str:
    """Raises: ValueError: the value is not a string."""
    if not isinstance(value, str):
        raise expected("string", value)
    return value


def _none(value: object, _: object) -> None:
    if value is not None:
        raise expected("null", value)


def _bool(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def read_job_id(value: object) -> JobId:
    """Read a job id: a whole number >= 0, or a string that contains one (luxid.md 2.1).

    Raises: ValueError.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _ID_DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _INT_END:
        raise expected("a job id (a whole number >= 0)", value)
    return JobId(value)


def _enum(value: object, kind: type[enum.Enum]) -> enum.Enum:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise expected(f"one of {known}", value) from None


_TEXT: Final = frozenset({str})


def _only(kinds: tuple[type, ...], what: str, inner: Hook) -> Hook:
    def read(value: object, kind: object) -> object:
        if not isinstance(value, kinds):
            raise expected(what, value)
        return inner(value, kind)

    return read


def _texts_at_once(one_by_one: Hook) -> Hook:
    def read(value: object, kind: object) -> object:
        # all by one call, as commands have many words; a fault is found by the other way
        if isinstance(value, list) and _TEXT.issuperset(map(type, value)):
            return tuple(value)
        return one_by_one(value, kind)

    return read


def make_converter(*, detailed: bool) -> Converter:
    """Make a strict converter, to which the caller may add hooks.

    Args:
        detailed: slower, and its errors name the place; for `explain`.
    """
    converter = Converter(forbid_extra_keys=True, detailed_validation=detailed)
    for primitive, hook in ((int, _int), (float, _float), (str, _str), (bool, _bool)):
        converter.register_structure_hook(primitive, hook)
    converter.register_structure_hook_func(lambda kind: kind in (None, type(None)), _none)
    _register_containers(converter)
    converter.register_structure_hook_func(lambda kind: kind is JobId, lambda value, _: read_job_id(value))
    converter.register_structure_hook_func(lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum), _enum)
    converter.register_structure_hook(Lock, lambda value, _: asked_lock(parse_lock(_str(value, str))))
    converter.register_unstructure_hook(Lock, str)
    converter.register_structure_hook(LockLevel, lambda value, _: LockLevel.parse(value))
    converter.register_structure_hook(LockRequest, lambda value, _: _asked(LockRequest.from_wire(value)))
    converter.register_unstructure_hook(LockRequest, LockRequest.to_wire)
    register_shapes(converter)
    return converter


def _asked(request: LockRequest) -> LockRequest:
    asked_lock(request.lock)
    return request


def _register_containers(converter: Converter) -> None:
    """Take lists only from JSON arrays, and objects only from JSON objects: cattrs alone takes any iterable."""

    def array(kind: type, converter: BaseConverter) -> Hook:
        return _only((list, tuple), "a list", list_structure_factory(kind, converter))

    def row(kind: type, converter: BaseConverter) -> Hook:
        read = _only((list, tuple), "a list", homogenous_tuple_structure_factory(kind, converter))
        return _texts_at_once(read) if get_args(kind)[0] is str else read

    def table(kind: type, converter: BaseConverter) -> Hook:
        return _only((dict,), "an object", cast(Hook, mapping_structure_factory(kind, converter)))

    def record(kind: type, converter: BaseConverter) -> Hook:
        return _only((dict,), "an object", cast(Hook, make_dict_structure_fn(kind, cast(Converter, converter))))

    converter.register_structure_hook_factory(is_sequence, array)
    converter.register_structure_hook_factory(_is_row, row)
    converter.register_structure_hook_factory(is_mapping, table)
    converter.register_structure_hook_factory(attrs.has, record)


def _is_row(kind: object) -> bool:
    arguments = get_args(kind)
    return get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis


_fast = make_converter(detailed=False)
_detailed = make_converter(detailed=True)


# Sizes of memory and disks: mebibytes, as a number or as text with a unit.
#
# Source: wconfd.md 7.3; opcodes.md 3.


_UNITS: Final = {"": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def read_mebibytes(value: object) -> int:
    """Convert `512`, `"512"`, `"2g"` and `"1.5 TiB"` to mebibytes; units are binary.

    Raises: ValueError: the value is not a size.
    """
    size: object = value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        size = float(match[1]) * _UNITS[match[2].lower()]
    if isinstance(size, bool) or not isinstance(size, int | float) or not abs(size) < 2**63:
        raise expected("a size in MiB, or with a unit such as '2g'", value)
    return round(size)
