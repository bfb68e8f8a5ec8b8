"""Check values and replies against the OpenAPI document; only the keywords that our documents have.

Source: JSON Schema 2020-12.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import httpx2

from daemons.rapid.openapi.document import openapi
from daemons.rapid.rpc import RapidHandlers, rows

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_KNOWN: Final = {
    *("$ref", "type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties"),
    *("propertyNames", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"),
    *("pattern", "description", "default", "discriminator", "examples", "x-enum-varnames"),
}


class Document:
    """An OpenAPI document."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def check(self, reply: httpx2.Response) -> None:
        """Check that a reply is one of those that the document promises for its request."""
        call = self._call(reply.request.method.lower(), reply.request.url.path)
        responses = call["responses"]
        assert str(reply.status_code) in responses, f"{reply.request.url}: {reply.status_code} is not documented"
        content = responses[str(reply.status_code)].get("content")
        if content is None:
            assert not reply.content
            return
        kind = reply.headers["content-type"].partition(";")[0]
        assert kind in content, f"{reply.request.url}: {kind} is not documented"
        if kind.endswith("json"):
            wrong = list(self.faults(content[kind]["schema"], reply.json()))
            assert not wrong, f"{reply.request.url}: {wrong} in {reply.text[:500]}"

    def check_status(self, reply: httpx2.Response) -> None:
        """Check that the status of a reply is documented, if the call is."""
        call = self._find(reply.request.method.lower(), reply.request.url.path)
        if call is not None:
            told = f"{reply.request.method} {reply.request.url}: {reply.status_code} is not documented"
            assert str(reply.status_code) in call["responses"], told

    def faults(self, schema: Any, value: Any, place: str = "$") -> Iterator[str]:
        """What is wrong with a value, with the place."""
        if not isinstance(schema, Mapping):
            if schema is False:
                yield f"{place}: nothing may be here"
            return
        assert schema.keys() <= _KNOWN, f"unknown keywords {schema.keys() - _KNOWN}"
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self.faults(self.content["components"]["schemas"][name], value, place)
        yield from _simple(schema, value, place)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                fitting = [each for each in schema[key] if not list(self.faults(each, value, place))]
                if not fitting or (key == "oneOf" and len(fitting) > 1):
                    yield f"{place}: fits {len(fitting)} of {key}: {value!r:.80}"
        if isinstance(value, dict):
            yield from self._members(schema, value, place)
        if isinstance(value, list):
            firsts = schema.get("prefixItems", [])
            for index, item in enumerate(value):
                inner = firsts[index] if index < len(firsts) else schema.get("items", {})
                yield from self.faults(inner, item, f"{place}[{index}]")

    def _members(self, schema: Any, value: Any, place: str) -> Iterator[str]:
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{place}: lacks {name}"
        for name, item in value.items():
            rest = schema.get("additionalProperties", {})
            yield from self.faults(schema.get("properties", {}).get(name, rest), item, f"{place}.{name}")
            yield from self.faults(schema.get("propertyNames", {}), name, f"{place}.{name}")

    def _call(self, verb: str, path: str) -> Any:
        call = self._find(verb, path)
        assert call is not None, f"{verb} {path} is not documented"
        return call

    def _find(self, verb: str, path: str) -> Any:
        """Fixed paths count before those with variables; None: there is no such call."""
        for pattern, verbs in sorted(self.content["paths"].items(), key=lambda each: each[0].count("{")):
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path) and verb in verbs:
                return verbs[verb]
        return None


@functools.cache
def document_of_calls() -> Document:
    """The document of rapid, without a rapid that runs."""
    return Document(openapi(rows(cast(RapidHandlers, Anything())), "1.2"))


class Anything:
    """Stands for the handlers of a table that is only looked at."""

    def __getattr__(self, name: str) -> "Anything":
        return self

    def __call__(self, *_: object, **__: object) -> "Anything":
        return self

    def __iter__(self) -> Iterator["Anything"]:
        return iter(())


def _simple(schema: Any, value: Any, place: str) -> Iterator[str]:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_a(kind, value) for kind in kinds):
        yield f"{place}: {value!r:.80} is not {' or '.join(kinds)}"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r:.80} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r:.80} is not one of {schema['enum']}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: {value} is out of range"
    if isinstance(value, str | list):
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        if not schema.get(low, 0) <= len(value) <= schema.get(high, len(value)):
            yield f"{place}: {value!r:.80} is too long or too short"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r:.80} does not match"


def _is_a(kind: str, value: object) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
