"""The base class of all opcodes; reading, checking and writing one.

An opcode is data: a frozen class with typed parameters, a summary and a declaration of its
locks. A logical unit (`daemons.jobproc.units`) does its work; only job processes import units.
luxid reads an opcode strictly when it is submitted, and keeps in the job file the normal form of
`write_opcode`: defaults are filled in, unset optional parameters are left out, secrets are
replaced.

Source: opcodes.md 1 and 2; luxid.md 3.1, 9.1; DESIGN section 7.
"""

import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import BaseConverter, Converter
from cattrs.gen import make_dict_unstructure_fn, override

from common.access import Role
from common.errors import InvalidRequest
from common.lockdecl import BIG_LOCK, LockDeclaration, LockRules, Resolver, apply_rules, is_declarable
from common.locks import Lock, asked_lock, read_lock
from common.opcodes.types import DeviceChange, DiskParams, NicParams, Reader, RecreatedDisk, Secrecy, number
from common.queue.jobs import SUBMIT_PRIORITIES, Dependency
from common.queue.reasons import ReasonEntry
from common.validation import Checked, says
from common.wire import expected, make_converter, problems, read_text

# Convert opcode parameters from JSON values and back.
#
# Theory. There are many opcodes and few types of parameters. Therefore one reader and one writer are prepared for each
# type, at its first use, and an opcode is read by a walk over its own keys. A converter generated for each class
# would cost the daemons more start time and memory than it saves.
#
# Source: opcodes.md 2.


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
    """Describe what is wrong with a value, in words for users: `priority: expected int, got 'x'`."""
    return problems(_detailed(), value, parameter.kind, parameter.name)


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
        _is_change, lambda value, kind: DeviceChange.from_wire(value, get_args(kind)[0], read)
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
    return get_origin(kind) is DeviceChange


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


N = TypeVar("N", bound=float | None)
O = TypeVar("O", bound="OpCode")  # noqa: E741  # an opcode

# limit of any duration of an opcode, in seconds: 31 years
LONGEST_S: Final = 1e9
# value of a secret parameter in a job file
REDACTED: Final = "<redacted>"


# the names are for clients that are made of the schema
@says({"enum": list(SUBMIT_PRIORITIES.values()), "x-enum-varnames": [name.upper() for name in SUBMIT_PRIORITIES]})
def _submit_priority(_: object, __: object, value: int) -> None:
    if value not in SUBMIT_PRIORITIES.values():
        raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {value}", priority=value)


def at_least(limit: float, at_most: float = math.inf) -> Callable[[object, Checked, N], None]:
    """A validator: the parameter is a finite number from `limit` to `at_most`, or unset."""

    @says({"minimum": limit} if at_most == math.inf else {"minimum": limit, "maximum": at_most})
    def check(_: object, attribute: Checked, value: float | None) -> None:
        # this form refuses nan as well
        if value is not None and not value >= limit:
            raise InvalidRequest(f"{attribute.name} must be at least {limit:g}, got {value:g}")
        if value is not None and (value > at_most or value == math.inf):
            raise InvalidRequest(f"{attribute.name} must be at most {at_most:g}, got {value:g}")

    return check


def seconds() -> Callable[[object, Checked, N], None]:
    """A validator: the parameter is a duration in seconds of at most `LONGEST_S`, or unset."""
    return at_least(0, LONGEST_S)


def only_declarable(_: object, attribute: Checked, value: Iterable[Lock]) -> None:
    """A validator of locks that a user names: it refuses locks that are reserved for other uses."""
    for lock in value:
        if not is_declarable(lock):
            raise InvalidRequest(
                f"{attribute.name}: no job may ask for '{lock}'; the lock of the cluster is 'cluster/BGL'"
            )
        if not lock.name and not lock.is_group:
            raise InvalidRequest(f"{attribute.name}: '{lock}' names nothing; write it as '{lock}NAME'")


_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@attrs.frozen(kw_only=True)
class OpCode:
    """One operation with its parameters. Subclasses are frozen, keyword-only attrs classes too.

    A subclass whose name begins with `Op` is an opcode. Its id follows from the name, unless the class states one:
    `OpTestDelay` is `OP_TEST_DELAY`. Other subclasses are common bases of several opcodes.
    """

    OP_ID: ClassVar[str]
    # name of the parameter that summaries show
    SUMMARY: ClassVar[str | None] = None
    # lock rules, if they depend only on names among the parameters; else override `lock_rules`
    LOCKS: ClassVar[LockRules] = {}
    # whether it runs alone in the cluster: it holds the BGL exclusively, and no other locks
    TAKES_BIG_LOCK: ClassVar[bool] = False
    # role needed to submit it; it acts with the daemons' rights, unless its unit ensures otherwise
    SUBMIT_ROLE: ClassVar[Role] = Role.OPERATE

    # whether it only checks that it could be done
    dry_run: bool | None = None
    # Ganeti's; it changes nothing here
    debug_level: int | None = attrs.field(default=None, validator=at_least(0))
    # -10 (high), 0 (normal) or 10 (low)
    priority: int = attrs.field(default=0, validator=_submit_priority)
    # jobs that must end before it, each [id, [states]]; a negative id counts back from this job in one submission
    depends: tuple[Dependency, ...] | None = None
    # words for people, which lists show
    comment: str | None = None
    # why, from its beginning: each entry is [source, reason, time in ns]
    reason: tuple[ReasonEntry, ...] = ()

    def __init_subclass__(cls) -> None:
        # attrs makes each class twice; the second time the class has the attributes of the first
        if "OP_ID" not in vars(cls) and cls.__name__.startswith("Op"):
            cls.OP_ID = _WORD_START.sub("_", cls.__name__).upper()

    def summary_value(self) -> str | None:
        """The text in brackets after the name in lists; None for none."""
        if self.SUMMARY is None:
            return None
        value = getattr(self, self.SUMMARY)
        return str(value.value if isinstance(value, enum.Enum) else value)

    def lock_rules(self) -> LockRules:
        """The lock rules for these parameters."""
        return self.LOCKS

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        """Return the locks that the parameters tell; as pure as `resolve` is.

        Args:
            resolve: looks up the lock of a named object; without one, instances are locked by the names given,
                and nodes, groups and networks are unknown unless given by uuid.
        """
        return BIG_LOCK if self.TAKES_BIG_LOCK else apply_rules(self.lock_rules(), self, resolve)

    @property
    def is_resumable(self) -> bool:
        """Whether a new process of the job can go on with it in the middle, after the death of the one that ran it."""
        return False

    def secret_parameters(self) -> Mapping[str, object] | None:
        """The values that the normal form hides; the job process receives them at its start. None: there are none."""
        name = shape_of(type(self)).secret
        return getattr(self, name) if name else None


# parameters that the normal form has even when they are unset (opcodes.md 2)
_ALWAYS_WRITTEN = frozenset({"depends", "comment"})


def read_opcode(kind: type[OpCode], value: Mapping[str, object]) -> OpCode:
    """Read an opcode's JSON object; null means missing, and `depend` means `depends`.

    Raises: InvalidRequest: an unknown key, a wrong type or a value out of range; the message names all of them. Or
        `depend` and `depends` both have a value.
    """
    known = shape_of(kind).parameters
    given = {key: item for key, item in value.items() if key != "OP_ID"}
    if (depend := given.pop("depend", None)) is not None:
        if given.get("depends") is not None:
            raise InvalidRequest("'depend' and 'depends' are one parameter; write all dependencies under 'depends'")
        given["depends"] = depend
    if "reason" in given and given["reason"] is None:
        raise InvalidRequest("reason must be a list of [source, reason, time in ns], not null; it may be empty")
    try:
        read = {}
        for key, item in given.items():
            # an unknown key is refused even when it is null
            part = known[key]
            # values equal to the default need not be read, and most are: the same object, or as empty
            if not (item is None or item is part.default or (not item and type(item) is part.empty)):
                read[key] = part.read(item, part.kind)
        return kind(**read)
    except Exception as error:
        found = _all_faults(known, given) or [str(error)]
        raise InvalidRequest(f"invalid opcode {kind.OP_ID}: {'; '.join(found)}") from error


def _all_faults(known: Mapping[str, Parameter], given: Mapping[str, object]) -> list[str]:
    unknown = [f"unknown key {key!r}" for key in sorted(given.keys() - known.keys(), key=str)]
    missing = [
        f"required key {name!r} is missing"
        for name, parameter in known.items()
        if parameter.required and given.get(name) is None
    ]
    wrong = [
        fault
        for name, value in given.items()
        if name in known and value is not None
        for fault in faults(known[name], value)
    ]
    return unknown + missing + wrong


def write_opcode(op: OpCode) -> dict[str, object]:
    """Return the opcode's normal form for job files; values of secret parameters are `<redacted>`."""
    shape = shape_of(type(op))
    fields: dict[str, object] = {"OP_ID": op.OP_ID}
    for name, parameter in shape.parameters.items():
        value = getattr(op, name)
        if value is not None:
            fields[name] = parameter.write(value)
        elif name in _ALWAYS_WRITTEN:
            fields[name] = None
    if shape.secret in fields:
        fields[shape.secret] = dict.fromkeys(op.secret_parameters() or (), REDACTED)
    return fields


def without_unset(fields: Mapping[str, object]) -> dict[str, object]:
    """Return an opcode's JSON object in normal form: Ganeti's job processes write unset parameters as null."""
    return {name: value for name, value in fields.items() if value is not None or name in _ALWAYS_WRITTEN}


def with_secrets(op: O, secrets: Mapping[str, object]) -> O:
    """Return the opcode as it was before its normal form was written.

    Args:
        secrets: the result of `secret_parameters`.
    """
    change: dict[str, Any] = {name: secrets} if (name := shape_of(type(op)).secret) else {}
    return attrs.evolve(op, **change)


def summary(op: OpCode) -> str:
    """`TEST_DELAY(1.0)`: the id without OP_, and the most telling parameter."""
    name = op.OP_ID.removeprefix("OP_")
    value = op.summary_value()
    return name if value is None else f"{name}({value})"
