"""Reference of the HTTP interface, from its OpenAPI document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from cli.manual.page import Block, Definition, Definitions, Literal, Page, PageLink, Paragraph, Section, paragraph
from common.shapes import JsonObject, Lenient
from common.wire import structure

_ABOUT: Final = (
    "gantry-rapid(8) serves these calls on the port of `[rapid]` in gantry.toml(5), and on a Unix socket. "
    "`/3/openapi.json` is the whole description for programs, with all types; `/3/docs` shows it."
)
_SEE_ALSO: Final = (PageLink("gantry-rapid", 8), ", ", PageLink("gantry-errors", 7), ", ", PageLink("gantry-token", 1))
_REF: Final = "#/components/schemas/"


@attrs.frozen
class Content(Lenient):
    schema: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class Body(Lenient):
    # media type -> what it is
    content: Mapping[str, Content]


@attrs.frozen
class Response(Lenient):
    description: str
    content: Mapping[str, Content] = attrs.field(factory=dict)


@attrs.frozen
class Parameter(Lenient):
    name: str
    schema: JsonObject
    description: str = ""
    required: bool = False


@attrs.frozen
class Operation(Lenient):
    summary: str
    # status -> reply
    responses: Mapping[str, Response]
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    requestBody: Body | None = None


@attrs.frozen
class About(Lenient):
    description: str


@attrs.frozen
class Document(Lenient):
    """What is read of the document; the names are OpenAPI's."""

    info: About
    # path -> verb -> call
    paths: Mapping[str, Mapping[str, Operation]]


def http_page(openapi: JsonObject) -> Page:
    """Args: openapi: the document, OpenAPI 3.1."""
    document = structure(openapi, Document, "OpenAPI document")
    return Page(
        "gantry-http",
        7,
        "calls of the HTTP interface",
        (
            Section("Description", (paragraph(_ABOUT), *_paragraphs(document.info.description))),
            *(Section(tag.capitalize(), parts=tuple(calls)) for tag, calls in _by_tag(document).items()),
            Section("See also", (Paragraph(_SEE_ALSO),)),
        ),
    )


def _by_tag(document: Document) -> Mapping[str, list[Section]]:
    found: dict[str, list[Section]] = {}
    for path, verbs in document.paths.items():
        for verb, operation in verbs.items():
            tag = next(iter(operation.tags), "other")
            found.setdefault(tag, []).append(Section(f"{verb.upper()} {path}", tuple(_blocks(operation))))
    return found


def _blocks(operation: Operation) -> Iterator[Block]:
    yield paragraph(operation.summary)
    yield from _paragraphs(operation.description)
    if operation.parameters:
        yield Definitions(tuple(map(_parameter, operation.parameters)))
    if operation.requestBody is not None:
        (content,) = operation.requestBody.content.values()
        yield paragraph(f"Body: {schema_words(content.schema)}.")
    yield paragraph(f"Replies: {'; '.join(_reply(status, each) for status, each in operation.responses.items())}.")


def _paragraphs(text: str) -> Sequence[Block]:
    return [paragraph(part) for part in text.split("\n\n") if part]


def _parameter(parameter: Parameter) -> Definition:
    text = parameter.description
    told = f"{text[:1].upper()}{text[1:].rstrip('.')}. " if text else ""
    words = schema_words(parameter.schema)
    needed = "; required" if parameter.required else ""
    return Definition((Literal(parameter.name),), (paragraph(f"{told}{words[:1].upper()}{words[1:]}{needed}."),))


def _reply(status: str, reply: Response) -> str:
    words = [schema_words(each.schema) for each in reply.content.values() if each.schema]
    named = [each for each in words if each != "`Problem`"]
    return f"{status} {reply.description}" + (f" with {named[0]}" if named else "")


def schema_words(schema: object) -> str:
    """A type of the document in words."""
    match schema:
        case {"$ref": str(ref)}:
            return f"`{ref.removeprefix(_REF)}`"
        case {"anyOf": [*members]} | {"oneOf": [*members]}:
            return " or ".join(dict.fromkeys(map(schema_words, members)))
        case {"enum": [*values]}:
            return ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"items": Mapping() as items}:
            return f"list of {schema_words(items)}"
        case {"type": [*names]}:
            return " or ".join(map(str, names))
        case {"type": str(name)}:
            return name
        case _:
            return "any JSON"
