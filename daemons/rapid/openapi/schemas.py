"""JSON Schemas of typed values: what the converter of messages reads and writes.

Theory. A class becomes a component, and is named elsewhere by a reference; so a type may contain itself. What the
converter does with a shape is told here in the words of JSON Schema: a test holds both together by real messages.
A class of a request takes no unknown keys. Those of replies may get more in a later release, and say nothing of it.

Source: JSON Schema 2020-12.
"""

import enum
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Final, Union, get_args, get_origin

import attrs
import orjson

from common.ids import JobId
from common.locks import Lock, LockLevel, Owner
from common.objects.filter import Action, RuleCondition
from common.opcodes.base import OpCode
from common.opcodes.registry import opcode_classes
from common.opcodes.types import DeviceChange, DiskParams, Reader, RecreatedDisk
from common.query.qlang import Expression
from common.queue.explanation import Span, WaitKind
from common.queue.jobs import FINAL_NAMES, Dependency
from common.queue.reasons import ReasonEntry
from common.reference import notes_of, summary_of
from common.shapes import DocumentedAs, Lenient, OtherKind, Row, TaggedObject, TaggedRow
from common.validation import rule_of
from daemons.rapid.calls import EventTypes
from protocol.luxi.jobs import OpcodeMark

# Schemas of the types that write and read their JSON themselves.
#
# Source: `common.shapes.OwnForm`; luxid.md 2.1, 6.


Schema = Mapping[str, object]

_IDS: Final = {"type": "array", "items": {"type": "integer"}}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_SECONDS: Final = {"type": "number", "description": "seconds since 1970"}


def _tuple(*parts: Schema, least: int | None = None) -> Schema:
    count = len(parts)
    return {
        "type": "array",
        "prefixItems": list(parts),
        "minItems": count if least is None else least,
        "maxItems": count,
    }


OWN_FORMS: Final[Mapping[object, Schema]] = {
    JobId: {"type": "integer", "minimum": 0},
    Lock: {"type": "string", "description": "a lock as `level/name`", "examples": ["node/web1", "cluster/BGL"]},
    LockLevel: {"type": "string", "enum": [str(level.value) for level in LockLevel]},
    Owner: {
        **_tuple({"type": ["integer", "string"]}, {"type": "string"}, {"type": "integer"}, least=2),
        "description": "job id or name, livelock, and process if it is known, of what holds locks",
    },
    Action: {
        "description": "what becomes of a job that the rule matches",
        "oneOf": [
            {"enum": ["ACCEPT", "PAUSE", "REJECT", "CONTINUE"]},
            {
                **_tuple({"const": "RATE_LIMIT"}, {"type": "integer", "minimum": 1}),
                "description": "at most so many of them run at once",
            },
        ],
    },
    RuleCondition: {
        **_tuple({"type": "string"}, {}),
        "description": "name of a predicate, and an expression of the query language",
    },
    ReasonEntry: {
        **_tuple({"type": "string"}, {"type": "string"}, {"type": "integer"}),
        "description": "source, reason, nanoseconds since 1970",
    },
    Dependency: {
        **_tuple({"type": "integer"}, {"type": "array", "items": {"enum": sorted(FINAL_NAMES)}}),
        "description": "job id, negative for an earlier job of the same submission; states that satisfy it, "
        "empty for success or error",
    },
    Expression: {
        "type": ["array", "null"],
        "items": {},
        "description": "`[operator, operand, ...]` of the query language",
    },
    Span: {
        "type": "object",
        "description": "a period in which one cause held the job",
        "properties": {
            "kind": {"enum": [kind.value for kind in WaitKind]},
            "since": _SECONDS,
            "until": {**_SECONDS, "type": ["number", "null"]},
            "job_ids": _IDS,
            "names": _TEXTS,
            "owners": _TEXTS,
            "more": {"type": "integer"},
            "limit": {"type": "integer"},
            "is_bucket": {"type": "boolean"},
            "reason": {"type": "string"},
        },
        "required": ["kind", "since", "until"],
    },
    DiskParams: {"type": "object", "description": "a disk: size, mode, vg, ... and keys of its storage provider"},
    RecreatedDisk: {
        "description": "index of a disk, or index and changed parameters",
        "oneOf": [{"type": "integer"}, _tuple({"type": "integer"}, {"type": "object"})],
    },
    DeviceChange: {
        **_tuple({"type": ["string", "integer"]}, {}, {"type": "object"}, least=2),
        "description": "`[action or index, parameters]` or `[action, index or name, parameters]`",
    },
}


_PLAIN: Final[Mapping[object, Schema]] = {
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    object: {},
}


class Schemas:
    """The components of one document.

    Args: opcodes: makes the schema of any opcode.
    """

    def __init__(self, opcodes: "Callable[[Schemas], Schema]") -> None:
        self.components: dict[str, Schema] = {}
        self._opcodes = opcodes
        self._kinds: dict[str, object] = {}
        # whether classes that are met now refuse unknown keys
        self._is_closed = False

    def of_request(self, kind: object) -> Schema:
        """The schema of a body."""
        self._is_closed = True
        try:
            return self.of(kind)
        finally:
            self._is_closed = False

    def of_open(self, kind: type) -> Schema:
        """The schema of objects that have further members now and then."""
        return self.named(kind, lambda: {**self._object(kind), "additionalProperties": True})

    def of(self, kind: object) -> Schema:
        """The schema of values of a type.

        Raises: TypeError: it is not known how they are written.
        """
        if (own := _looked_up(OWN_FORMS, kind)) is not None:
            return self._own(kind, own)
        if (plain := _looked_up(_PLAIN, kind)) is not None:
            return plain
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(arguments)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if isinstance(origin, type) and (own := _looked_up(OWN_FORMS, origin)) is not None:
            return self._own(origin, own)
        if isinstance(origin, type):
            return self._container(origin, arguments)
        return self._class(kind)

    def named(self, kind: type, make: Callable[[], Schema]) -> Schema:
        """A reference to the component of a class, which is made at its first use."""
        name = kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            # two classes of one name
            name = f"{kind.__module__.rpartition('.')[2].capitalize()}{name}"
            self._kinds.setdefault(name, kind)
        return self._component(name, make)

    def _component(self, name: str, make: Callable[[], Schema]) -> Schema:
        if name not in self.components:
            # its name is taken before it is made: it may contain itself
            self.components[name] = {}
            self.components[name] = make()
        return {"$ref": f"#/components/schemas/{name}"}

    def _own(self, kind: object, schema: Schema) -> Schema:
        return self.named(kind, lambda: schema) if isinstance(kind, type) else schema

    def properties(self, kind: type, notes: Mapping[str, str] | None = None) -> dict[str, Schema]:
        """Field -> schema, for the fields of an attrs class."""
        told = notes_of(kind) if notes is None else notes
        return {field.name: self._field(field, told.get(field.name, "")) for field in attrs.fields(kind)}

    def _field(self, field: "attrs.Attribute[object]", note: str) -> Schema:
        schema = dict(self.of(field.type))
        rule = rule_of(field.validator)
        if rule:
            schema = _with_rule(schema, rule)
        if note:
            schema["description"] = note
        if field.default is not attrs.NOTHING and field.default is not None and _is_json(field.default):
            # words of a list for its members
            schema["default"] = orjson.loads(orjson.dumps(field.default))
        return schema

    def of_events(self, events: EventTypes) -> Schema:
        """The schema of an event of a stream, its data read as JSON."""
        refs = {name: self._event(events, name) for name in events.data}
        mapping = {name: ref["$ref"] for name, ref in refs.items()}
        schema = {
            "description": "An event of a stream, with its data read as JSON.",
            "oneOf": list(refs.values()),
            "discriminator": {"propertyName": "event", "mapping": mapping},
        }
        return self._component(events.name, lambda: schema)

    def _event(self, events: EventTypes, name: str) -> Schema:
        properties = {"id": {"type": "string"}, "event": {"const": name}, "data": self.of(events.data[name])}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return self._component(f"{name.capitalize()}{events.name}", lambda: schema)

    def _annotated(self, arguments: Sequence[object]) -> Schema:
        kind, *marks = arguments
        for mark in marks:
            if isinstance(mark, OpcodeMark):
                return self._opcodes(self) if self._is_closed else {"type": "object"}
            if isinstance(mark, DocumentedAs):
                return self.of(mark.kind)
            if isinstance(mark, Reader) and mark.schema:
                return mark.schema
        return self.of(kind)

    def _union(self, members: Sequence[object]) -> Schema:
        if all(isinstance(each, type) and issubclass(each, TaggedObject | OtherKind) for each in members):
            return self._tagged(members)
        schemas = [self.of(each) for each in members]
        simple = [each["type"] for each in schemas if set(each) == {"type"} and isinstance(each["type"], str)]
        if len(simple) == len(schemas):
            return {"type": simple}
        return {"anyOf": schemas}

    def _tagged(self, members: Sequence[object]) -> Schema:
        """Objects that are told apart by their kind; kinds of newer releases are not in the mapping."""
        kinds = [each for each in members if isinstance(each, type) and issubclass(each, TaggedObject)]
        refs = {each.KIND: self.of(each) for each in kinds}
        mapping = {kind: ref["$ref"] for kind, ref in refs.items()}
        others = [self.of(OtherKind)] if OtherKind in members else []
        return {"anyOf": [*refs.values(), *others], "discriminator": {"propertyName": "kind", "mapping": mapping}}

    def _container(self, origin: type, arguments: Sequence[object]) -> Schema:
        if issubclass(origin, Mapping):
            key, value = arguments
            schema: dict[str, object] = {"type": "object", "additionalProperties": self.of(value)}
            return schema if key is str else {**schema, "propertyNames": self.of(key)}
        if issubclass(origin, tuple) and arguments[-1] is not Ellipsis:
            parts = [self.of(each) for each in arguments]
            return _row(parts)
        if issubclass(origin, Sequence | frozenset | set):
            return {"type": "array", "items": self.of(arguments[0])}
        raise TypeError(f"{origin.__name__}: it is not known how it is written")

    def _class(self, kind: object) -> Schema:
        if not isinstance(kind, type):
            raise TypeError(f"{kind!r}: it is not known how it is written")
        if issubclass(kind, enum.Enum):
            return self.named(kind, lambda: {"enum": [member.value for member in kind]})
        if kind is OtherKind:
            return self.named(kind, lambda: _OTHER_KIND)
        if issubclass(kind, Row):
            return self.named(kind, lambda: self._list_of_fields(kind))
        if attrs.has(kind):
            return self.named(kind, lambda: self._object(kind))
        raise TypeError(f"{kind.__name__}: it is not known how it is written")

    def _list_of_fields(self, kind: type) -> Schema:
        tag = [{"const": kind.TAG}] if issubclass(kind, TaggedRow) else []
        return {"description": summary_of(kind), **_row([*tag, *self.properties(kind).values()])}

    def _object(self, kind: type) -> Schema:
        properties = self.properties(kind)
        # the writer leaves out no field, but those of `Lenient` at their defaults
        is_optional = self._is_closed or issubclass(kind, Lenient)
        required = [field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING or not is_optional]
        if issubclass(kind, TaggedObject):
            properties = {"kind": {"const": kind.KIND}, **properties}
            required = ["kind", *required]
        schema: dict[str, object] = {"type": "object", "description": summary_of(kind), "properties": properties}
        if required:
            schema["required"] = required
        return {**schema, "additionalProperties": False} if self._is_closed else schema


_OTHER_KIND: Final[Schema] = {
    "type": "object",
    "description": "A kind that only a newer release knows.",
    "properties": {"kind": {"type": "string"}},
    "required": ["kind"],
}


def _looked_up(table: Mapping[object, Schema], kind: object) -> Schema | None:
    try:
        return table.get(kind)
    except TypeError:
        # a type that cannot be hashed
        return None


def _row(parts: Sequence[Schema]) -> Schema:
    count = len(parts)
    return {"type": "array", "prefixItems": list(parts), "minItems": count, "maxItems": count}


def _with_rule(schema: Schema, rule: Schema) -> dict[str, object]:
    """The rule joined with the type; for an optional value it holds for the value, not for null."""
    match schema:
        case {"anyOf": [*members]}:
            return {**schema, "anyOf": [_unless_null(member, rule) for member in members]}
        case {"type": [kind, "null"]} if "enum" in rule:
            return {"anyOf": [{"type": kind, **rule}, {"type": "null"}]}
        case _:
            return {**schema, **rule}


def _unless_null(member: object, rule: Schema) -> object:
    return member if member == _PLAIN[None] or not isinstance(member, Mapping) else {**member, **rule}


def _is_json(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return not isinstance(value, enum.Enum)


# The schema of opcodes: one of them all, told apart by OP_ID.
#
# Source: opcodes.md.


def any_opcode(schemas: Schemas) -> Schema:
    """The schema of any opcode that can be submitted here, those of plug-ins included."""
    return schemas.named(OpCode, lambda: _union(schemas))


def _union(schemas: Schemas) -> Schema:
    refs = {op_id: schemas.named(kind, partial(_one, schemas, kind)) for op_id, kind in opcode_classes().items()}
    mapping = {op_id: ref["$ref"] for op_id, ref in refs.items()}
    return {
        "description": "One operation with its parameters.",
        "oneOf": list(refs.values()),
        "discriminator": {"propertyName": "OP_ID", "mapping": mapping},
    }


def _one(schemas: Schemas, kind: type[OpCode]) -> Schema:
    if any(isinstance(field.type, str) for field in attrs.fields(kind)):
        # the module of a plug-in may have its annotations as text
        attrs.resolve_types(kind)
    notes = {name: note for base in reversed(kind.__mro__) for name, note in notes_of(base).items()}
    required = [field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING]
    return {
        "type": "object",
        "description": summary_of(kind),
        "properties": {"OP_ID": {"const": kind.OP_ID}, **schemas.properties(kind, notes)},
        "required": ["OP_ID", *required],
        "additionalProperties": False,
    }
