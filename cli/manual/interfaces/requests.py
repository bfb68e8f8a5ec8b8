"""Reference of the daemons' calls over their sockets, from the classes of requests."""

import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Final, get_args, get_origin

import attrs

import protocol.keeperd
import protocol.luxi
import protocol.noded
import protocol.wconfd
from cli.manual.page import (
    Block,
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
from common.reference.daemonfacts import DaemonFacts
from common.reference.fieldnotes import notes_of, summary_of
from protocol.face import requests_of
from protocol.messages import AnyRequest, Request

_ABOUT: Final = (
    "Messages are JSON; each ends with the byte 3. A call is an object with `method` and `args`, a list in the "
    "order of the parameters; the reply has `success` and `result`. With `jsonrpc` in the call, the dialect is "
    "JSON-RPC 2.0, and parameters may be given by name. Parameters with a default may be left out from the end.",
    "An error is an object with a code: gantry-errors(7). The role is that of `[access]` in gantry.toml(5) which a "
    "caller needs at least; some calls need more for other users' jobs. The role `full` is for root and the "
    "daemons' user.",
)
# name of a page -> (package, name of the daemon, what it is, its socket)
_FACES: Final[Mapping[str, tuple[types.ModuleType, str, str]]] = {
    "gantry-luxi": (protocol.luxi, "luxid", "calls of luxid: the queue"),
    "gantry-wconfd-calls": (protocol.wconfd, "wconfd", "calls of wconfd: locks and configuration"),
    "gantry-keeperd-calls": (protocol.keeperd, "keeperd", "calls of keeperd: the mastership"),
}


def call_pages(facts: DaemonFacts) -> tuple[Page, ...]:
    return tuple(_page(name, *face, facts.roles.get(face[1], {})) for name, face in _FACES.items())


def _page(name: str, face: types.ModuleType, daemon: str, about: str, roles: Mapping[str, str]) -> Page:
    kinds = requests_of(face)
    shapes = {each.__name__: each for kind in kinds for each in _shapes(kind)}
    return Page(
        name,
        7,
        about,
        (
            Section("Description", tuple(map(paragraph, _ABOUT))),
            Section("Calls", parts=tuple(_call(kind, roles) for kind in kinds if kind.METHOD in roles)),
            Section("Objects", parts=tuple(_shape(shapes[each]) for each in sorted(shapes))),
            Section(
                "See also",
                (
                    Paragraph(
                        (
                            PageLink(f"gantry-{daemon}", 8),
                            ", ",
                            PageLink("gantry-query", 7),
                            ", ",
                            PageLink("gantry-errors", 7),
                        )
                    ),
                ),
            ),
        ),
    )


def _call(kind: type[AnyRequest], roles: Mapping[str, str]) -> Section:
    about = inspect.cleandoc(vars(kind).get("__doc__") or "")
    blocks: list[Block] = [paragraph(part) for part in about.split("\n\n") if part]
    reply = marked(type_words(reply_of(kind)))
    blocks.append(Paragraph(("Role ", Literal(roles[kind.METHOD]), ". Reply: ", *reply, ".")))
    if rows := tuple(_fields(kind)):
        blocks.append(Definitions(rows))
    return Section(kind.METHOD, tuple(blocks))


def _shape(kind: type) -> Section:
    summary = summary_of(kind)
    return Section(kind.__name__, (*([paragraph(summary)] if summary else []), Definitions(tuple(_fields(kind)))))


def _fields(kind: type) -> Iterator[Definition]:
    notes = {name: note for base in reversed(kind.__mro__) for name, note in notes_of(base).items()}
    for field in attrs.fields(kind):
        words = type_words(field.type)
        told = f"{words[:1].upper()}{words[1:]}" + ("" if field.default is attrs.NOTHING else "; may be left out")
        note = notes.get(field.name, "")
        text = f"{note[:1].upper()}{note[1:].rstrip('.')}. {told}." if note else f"{told}."
        yield Definition((Literal(field.name),), (paragraph(text),))


def reply_of(kind: type[AnyRequest]) -> object:
    """The type of a reply."""
    for base in getattr(kind, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Request):
            return get_args(base)[0]
    return object


def _shapes(kind: type) -> Iterator[type]:
    """The classes of objects that stand in parameters and reply."""
    seen: dict[type, None] = {}
    for each in (reply_of(kind), *(field.type for field in attrs.fields(kind))):
        _gather(each, seen)
    yield from seen


def _gather(kind: object, seen: dict[type, None]) -> None:
    for part in get_args(kind):
        _gather(part, seen)
    if isinstance(kind, type) and attrs.has(kind) and kind not in seen and get_origin(kind) is None:
        seen[kind] = None
        for field in attrs.fields(kind):
            _gather(field.type, seen)
