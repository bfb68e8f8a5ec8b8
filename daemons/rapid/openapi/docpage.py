"""The documentation as one HTML page, drawn from the document: no script, nothing from elsewhere.

Source: DESIGN section 15.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from protocol.rapid.problems import CODES

# part of the document
Part = Mapping[str, Any]

POLICY: Final = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
# of a stream of events: OpenAPI 3.1 has no word for them; 3.2 calls it itemSchema
EVENT_SCHEMA: Final = "x-itemSchema"
_REF: Final = "#/components/schemas/"
CSS: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.5rem; border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: 0.2rem 0; }
summary code { font-weight: bold; }
.verb { display: inline-block; min-width: 4rem; }
nav a { margin-right: 1rem; }
details > div { padding-left: 1rem; }
"""


def draw_docs(document: Part) -> str:
    """The page of all calls and types."""
    by_tag: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            tag = next(iter(operation.get("tags", ())), "other")
            by_tag.setdefault(tag, []).append(_operation(verb, path, operation))
    parts = [f"<h2 id='{escape(tag)}'>{escape(tag)}</h2>{''.join(drawn)}" for tag, drawn in by_tag.items()]
    types = "".join(_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    links = " ".join(f"<a href='#{escape(tag)}'>{escape(tag)}</a>" for tag in (*by_tag, "types"))
    about = _text(document["info"]["description"])
    more = "<p><a href='/3/openapi.json'>OpenAPI document</a> <a href='/3/problems'>Codes of problems</a></p>"
    body = f"{about}{more}<nav>{links}</nav>{''.join(parts)}<h2 id='types'>types</h2>{types}"
    return page(f"Gantry {document['info']['version']}: the HTTP interface", body)


def draw_problems() -> str:
    """The page to which the types of problems lead."""
    told = (
        f"<h2 id='{escape(code)}'><code>{escape(code)}</code>: {escape(title)}</h2><p>{escape(text)}</p>"
        for code, (title, text) in CODES.items()
    )
    return page("Problems", "".join(told))


def page(title: str, body: str) -> str:
    """A page with this body, which is HTML."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        "<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='/3/docs.css'></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )


def _operation(verb: str, path: str, operation: Part) -> str:
    head = f"<code><span class='verb'>{verb.upper()}</span>{escape(path)}</code> {escape(operation['summary'])}"
    parts = [
        _text(operation.get("description", "")),
        _parameters(operation.get("parameters", ())),
        _body(operation.get("requestBody")),
        _responses(operation["responses"]),
    ]
    return _folded(operation["operationId"], head, "".join(parts))


def _folded(name: str, head: str, body: str) -> str:
    """A part that opens by a click. Args: head, body: HTML."""
    return f"<details id='{escape(name)}'><summary>{head}</summary><div>{body}</div></details>"


def _text(text: str) -> str:
    return "".join(f"<p>{_marked(part)}</p>" for part in text.split("\n\n")) if text else ""


def _marked(text: str) -> str:
    """Words in back quotes as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _parameters(parameters: Sequence[Part]) -> str:
    rows = (
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{_schema(each['schema'])}</td><td>{_marked(each.get('description', ''))}</td></tr>"
        for each in parameters
    )
    return f"<table>{''.join(rows)}</table>" if parameters else ""


def _body(body: Part | None) -> str:
    if body is None:
        return ""
    kinds = body["content"]
    # a body is the same in each media type
    content = next(iter(kinds.values()))
    examples = (
        f"<p>{escape(name)}</p><pre>{escape(json.dumps(example['value'], indent=2))}</pre>"
        for name, example in content.get("examples", {}).items()
    )
    return f"<p>Body: {_schema(content['schema'])} <small>{escape(', '.join(kinds))}</small></p>{''.join(examples)}"


def _responses(responses: Part) -> str:
    rows = (
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(each['description'])}</td><td>{_content(each)}</td></tr>"
        for status, each in responses.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _content(response: Part) -> str:
    return " ".join(
        f"{_schema(content.get(EVENT_SCHEMA, content['schema']))} <small>{escape(kind)}</small>"
        for kind, content in response.get("content", {}).items()
    )


def _type(name: str, schema: Part) -> str:
    rows = (
        f"<tr><td><code>{escape(field)}</code>{' *' if field in schema.get('required', ()) else ''}</td>"
        f"<td>{_schema(each)}</td><td>{_marked(each.get('description', ''))}</td></tr>"
        for field, each in schema.get("properties", {}).items()
    )
    shape = f"<table>{''.join(rows)}</table>" if "properties" in schema else _schema(schema)
    text = _text(schema.get("description", ""))
    return (
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary><div>{text}{shape}</div></details>"
    )


def _schema(schema: Part) -> str:
    return " ".join(_words(schema)) or "anything"


def _words(schema: Part) -> Iterator[str]:
    """A schema in short: its type and its bounds."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REF))
        yield f"<a href='#{name}'>{name}</a>"
        return
    for key in ("anyOf", "oneOf"):
        if key in schema:
            yield " or ".join(_schema(each) for each in schema[key])
    if "const" in schema:
        yield f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        yield ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    elif "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        yield escape(" or ".join(kinds))
    if isinstance(schema.get("items"), Mapping):
        yield f"of {_schema(schema['items'])}"
    if "prefixItems" in schema:
        yield f"[{', '.join(_schema(each) for each in schema['prefixItems'])}]"
    if schema.get("additionalProperties"):
        yield f"of {_schema(schema['additionalProperties'])}"
    if "minimum" in schema:
        yield f"≥ {schema['minimum']:g}"
    if "maximum" in schema:
        yield f"≤ {schema['maximum']:g}"
    if schema.get("default") not in (None, [], "", {}):
        yield f"(default <code>{escape(json.dumps(schema['default']))}</code>)"
