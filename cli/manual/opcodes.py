"""The page of opcodes: parameters with types and defaults, locks, and who may submit each; from their classes."""

import enum
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Union, assert_never, get_args, get_origin

import attrs

from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    Paragraph,
    Section,
    capital,
    marked,
    paragraph,
    see_also,
    sentence,
)
from common.access import Role
from common.lockdecl import LevelRule, LockRules, Scope
from common.locks import Lock
from common.opcodes.base import OpCode, shape_of
from common.opcodes.registry import opcode_classes
from common.opcodes.types import Reader, Secrecy
from common.reference import notes_of, summary_of
from common.shapes import OtherKind

# Types in words, as people write their values in JSON: `a text`, `a list of whole numbers`, `running | error`.


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


_ABOUT: Final = (
    "A job is a list of opcodes. Each is a JSON object with its `OP_ID` and parameters; a parameter with a default "
    "may be left out, and null means the same. An unknown parameter is refused. gantry-plan(5) has a form for "
    "people; 'gnt-job run' makes an `OP_RUN_COMMAND`.",
    "Roles are those of `[access]` in gantry.toml(5). Locks are what the parameters tell before the job runs: an "
    "opcode shares `cluster/BGL` and takes its locks by level; where it says that it runs alone, it holds "
    "`cluster/BGL` exclusively.",
)
_EXAMPLE: Final = """\
[{"OP_ID": "OP_RUN_COMMAND", "argv": ["uname", "-a"],
  "locks": {"node/web1": "exclusive"}, "timeout": 60}]"""
_ROLES: Final = {role: role.name.lower() for role in Role}


def opcodes_page() -> ManualPage:
    kinds = opcode_classes()
    return ManualPage(
        "gantry-opcodes",
        7,
        "opcodes, with their parameters, locks and roles",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Parameters of all opcodes", (Definitions(tuple(_parameters(OpCode))),)),
            Section("Opcodes", parts=tuple(Section(op_id, tuple(_blocks(kinds[op_id]))) for op_id in sorted(kinds))),
            Section("Examples", (Code(_EXAMPLE),)),
            see_also("gantry-plan(5), gnt-job-submit(1), gantry(7)"),
        ),
    )


def _blocks(kind: type[OpCode]) -> Iterator[Block]:
    yield paragraph(summary_of(kind))
    yield Paragraph(("Role ", Literal(_ROLES[kind.SUBMIT_ROLE]), ". ", *marked(locks_in_words(kind))))
    if rows := tuple(_parameters(kind)):
        yield Definitions(rows)


def _parameters(kind: type[OpCode]) -> Iterator[Definition]:
    """Those of the class itself, and of its bases below `OpCode`."""
    common = set() if kind is OpCode else set(attrs.fields_dict(OpCode))
    notes = {name: note for base in reversed(kind.__mro__) for name, note in notes_of(base).items()}
    for name, parameter in shape_of(kind).parameters.items():
        if name not in common:
            field = attrs.fields_dict(kind)[name]
            yield Definition((Literal(name),), tuple(_parameter(parameter.kind, field, notes.get(name, ""))))


def _parameter(kind: object, field: "attrs.Attribute[object]", note: str) -> Iterator[Block]:
    if note:
        yield paragraph(sentence(note))
    told = "required" if field.default is attrs.NOTHING else _default(field.default)
    secrecy = field.metadata.get(Secrecy)
    hidden = "" if secrecy is None else f"; {'kept in memory only' if secrecy is Secrecy.SECRET else 'never shown'}"
    yield paragraph(f"{capital(type_words(kind))}; {told}{hidden}.")


def _default(value: object) -> str:
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]  # a class, for which attrs has a function
        return "may be left out"
    match value:
        case None | () | "":
            return "may be left out"
        case bool():
            return f"default {'true' if value else 'false'}"
        case tuple():
            return f"default [{', '.join(map(str, value))}]"
        case enum.Enum():
            return f"default `{value.value}`"
        case _:
            return f"default {value}"


def locks_in_words(kind: type[OpCode]) -> str:
    """What an opcode locks, as far as its class tells."""
    if kind.TAKES_BIG_LOCK:
        return "It runs alone in the cluster."
    if kind.lock_rules is not OpCode.lock_rules or kind.lock_declaration is not OpCode.lock_declaration:
        return "Its locks depend on its parameters."
    return f"Locks: {_rules(kind.LOCKS)}." if kind.LOCKS else "It takes no locks."


def _rules(rules: LockRules) -> str:
    return "; ".join(f"{level.value} {rule.mode.value}, {_whose(rule)}" for level, rule in rules.items())


def _whose(rule: LevelRule) -> str:
    match rule.scope:
        case Scope.ALL:
            return "all of the level"
        case Scope.UNKNOWN:
            return "some that it finds when it runs"
        case Scope.NAMED:
            named = " and ".join(f"`{name}`" for name in (*rule.existing, *rule.new))
            return f"what {named} names" + (", and others" if rule.and_others else "")
        case _:
            assert_never(rule.scope)
