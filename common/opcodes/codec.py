"""Convert opcode parameters from JSON values and back.

Theory. There are many opcodes and few types of parameters. Therefore one reader and one writer are prepared for each
type, at its first use, and an opcode is read by a walk over its own keys. A converter generated for each class
would cost the daemons more start time and memory than it saves.

Source: opcodes.md 2.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import attrs
from cattrs import BaseConverter, Converter
from cattrs.gen import make_dict_unstructure_fn, override

from common.locks import Lock, asked_lock, read_lock
from common.opcodes.structures import Change, DiskParams, NicParams, RecreatedDisk
from common.opcodes.types import Reader, Secrecy, number
from common.shapehooks import expected
from common.wire import make_converter, problems, read_text

# reads a value as a type; what it gives is of that type
Hook = Callable[[object, object], Any]


@attrs.frozen
class Parameter:
    """One parameter of an opcode class."""

    name: str
    # type without the `| None` of an optional parameter
    kind: type
    required: bool
    # value when it is not given, if every process has just one such object: true, false or a small number
    default: object
    # list or dict, if the default is an empty one
    empty: type | None
    # function read(value, kind); raises if the value is not of that type
    read: Hook
    write: Callable[[object], object]


@attrs.frozen
class Shape:
    """The parameters of an opcode class."""

    parameters: Mapping[str, Parameter]
    # name of the secret parameter; the handshake with a job process has room for one
    secret: str | None


_shapes: Final[dict[type, Shape]] = {}


def shape_of(kind: type[attrs.AttrsInstance]) -> Shape:
    """Return the shape of an opcode class; the same object at each call."""
    shape = _shapes.get(kind)
    if shape is None:
        if any(isinstance(field.type, str) for field in attrs.fields(kind)):
            # the module of a plug-in may have its annotations as text
            attrs.resolve_types(kind)
        fields = attrs.fields(kind)
        secrets = [field.name for field in fields if field.metadata.get(Secrecy) is Secrecy.SECRET]
        shape = Shape({field.name: _parameter(field) for field in fields}, next(iter(secrets), None))
        _shapes[kind] = shape
    return shape


def faults(parameter: Parameter, value: object) -> list[str]:
    """Describe what is wrong with a value, in words for users: `expected int, got 'x' @ $.priority`."""
    return problems(_detailed(), value, parameter.kind, f"$.{parameter.name}")


def _parameter(field: "attrs.Attribute[object]") -> Parameter:
    kind = _without_none(field.type)
    return Parameter(
        name=field.name,
        kind=kind,
        required=field.default is attrs.NOTHING,
        default=field.default,
        empty=_empty_kind(field.default),
        read=_fast.get_structure_hook(kind),
        write=_fast.get_unstructure_hook(kind),
    )


def _empty_kind(default: object) -> type | None:
    if default == ():
        return list
    return dict if getattr(default, "factory", None) is dict else None


def _without_none(kind: type | None) -> type:
    if kind is None:
        raise TypeError("a parameter of an opcode needs a type")
    arguments = [argument for argument in get_args(kind) if argument is not NoneType]
    is_optional = get_origin(kind) in (Union, UnionType) and len(arguments) == 1
    return arguments[0] if is_optional else kind


def _make_converter(*, detailed: bool) -> Converter:
    converter = make_converter(detailed=detailed)

    def read(value: object, kind: object) -> Any:
        return converter.get_structure_hook(kind)(value, kind)

    converter.register_structure_hook(Lock, lambda value, _: asked_lock(read_lock(read_text(value))))
    converter.register_structure_hook(float, lambda value, _: number(value))
    converter.register_structure_hook_factory(_has_reader, _annotated_reader)
    converter.register_unstructure_hook_func(_has_reader, _as_it_is)
    converter.register_structure_hook_factory(_is_pair, _pair_reader)
    converter.register_unstructure_hook_factory(_is_pair, _pair_writer)
    converter.register_unstructure_hook_factory(lambda kind: kind is NicParams, _writer_of_what_is_set)
    converter.register_structure_hook(DiskParams, lambda value, _: DiskParams.from_wire(value, read))
    converter.register_unstructure_hook(DiskParams, DiskParams.to_wire)
    converter.register_structure_hook(RecreatedDisk, lambda value, _: RecreatedDisk.from_wire(value, read))
    converter.register_unstructure_hook(RecreatedDisk, RecreatedDisk.to_wire)
    converter.register_structure_hook_func(
        _is_change, lambda value, kind: Change.from_wire(value, get_args(kind)[0], read)
    )
    converter.register_unstructure_hook_func(
        _is_change, lambda change: change.to_wire(converter.unstructure(change.params))
    )
    return converter


def _has_reader(kind: object) -> bool:
    return get_origin(kind) is Annotated and isinstance(get_args(kind)[1], Reader)


def _annotated_reader(kind: object) -> Hook:
    reader: Reader = get_args(kind)[1]
    read = reader.read
    return lambda value, _: read(value)


def _as_it_is(value: object) -> object:
    return value


def _is_change(kind: object) -> bool:
    return get_origin(kind) is Change


def _is_pair(kind: object) -> bool:
    return get_origin(kind) is tuple and len(get_args(kind)) == 2 and get_args(kind)[1] is not Ellipsis


def _pair_reader(kind: object, converter: BaseConverter) -> Hook:
    parts = [(part, converter.get_structure_hook(part)) for part in get_args(kind)]

    def read(value: object, _: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise expected("a list of two", value)
        return tuple(hook(item, part) for item, (part, hook) in zip(value, parts, strict=True))

    return read


def _pair_writer(kind: object, converter: BaseConverter) -> Callable[[tuple[object, object]], object]:
    first, second = (converter.get_unstructure_hook(part) for part in get_args(kind))
    return lambda value: [first(value[0]), second(value[1])]


def _writer_of_what_is_set(kind: type, converter: BaseConverter) -> Callable[[object], object]:
    unset = {field.name: override(omit_if_default=True) for field in attrs.fields(kind)}
    return make_dict_unstructure_fn(kind, converter, **unset)  # type: ignore[arg-type]  # names of fields, not options


_fast: Final = _make_converter(detailed=False)


@cache
def _detailed() -> Converter:
    """Built when something is refused for the first time."""
    return _make_converter(detailed=True)
