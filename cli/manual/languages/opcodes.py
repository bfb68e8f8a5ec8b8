"""The page of opcodes: parameters with types and defaults, locks, and who may submit each; from their classes."""

import enum
from collections.abc import Iterator
from typing import Final, assert_never

import attrs

from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    Page,
    PageLink,
    Paragraph,
    Section,
    marked,
    paragraph,
)
from cli.manual.typewords import type_words
from common.access import Role
from common.lockdecl import LevelRule, LockRules, Scope
from common.opcodes.base import OpCode
from common.opcodes.codec import shape_of
from common.opcodes.registry import opcode_classes
from common.opcodes.types import Secrecy
from common.reference.fieldnotes import notes_of, summary_of

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


def opcodes_page() -> Page:
    kinds = opcode_classes()
    return Page(
        "gantry-opcodes",
        7,
        "opcodes, with their parameters, locks and roles",
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Parameters of all opcodes", (Definitions(tuple(_parameters(OpCode))),)),
            Section("Opcodes", parts=tuple(_opcode(op_id, kinds[op_id]) for op_id in sorted(kinds))),
            Section("Examples", (Code(_EXAMPLE),)),
            Section(
                "See also",
                (
                    Paragraph(
                        (PageLink("gantry-plan", 5), ", ", PageLink("gnt-job-submit", 1), ", ", PageLink("gantry", 7))
                    ),
                ),
            ),
        ),
    )


def _opcode(op_id: str, kind: type[OpCode]) -> Section:
    return Section(op_id, tuple(_blocks(kind)))


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
        yield paragraph(f"{note[:1].upper()}{note[1:].rstrip('.')}.")
    words = type_words(kind)
    told = "required" if field.default is attrs.NOTHING else _default(field.default)
    secrecy = field.metadata.get(Secrecy)
    hidden = "" if secrecy is None else f"; {'kept in memory only' if secrecy is Secrecy.SECRET else 'never shown'}"
    yield paragraph(f"{words[:1].upper()}{words[1:]}; {told}{hidden}.")


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
