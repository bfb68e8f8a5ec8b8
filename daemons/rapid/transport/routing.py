"""Find the row of a request by its path and verb.

Ganeti's paths are compared as they were sent, other paths after their escapes are decoded.

Source: rapi.md 3.
"""

from collections.abc import Mapping, Sequence
from re import Pattern
from typing import Final

import attrs
from starlette.convertors import Convertor
from starlette.routing import compile_path
from starlette.types import Scope

from daemons.rapid.calls import Call, Face

# longer paths name nothing
_MAX_PATH: Final = 2000
_GANETI: Final = "/2/"


@attrs.frozen
class Found:
    """The row of a request, or what there is instead."""

    face: Face
    # None: there is no such path, or not with this verb
    call: Call | None = None
    # values of the path's variables
    params: Mapping[str, object] = attrs.field(factory=dict)
    # verbs that the path has; empty: there is no such path
    verbs: tuple[str, ...] = ()


@attrs.frozen
class _Route:
    pattern: Pattern[str]
    convertors: Mapping[str, Convertor[object]]
    # by verb
    calls: dict[str, Call] = attrs.field(factory=dict)

    def params_of(self, path: str) -> dict[str, object] | None:
        match = self.pattern.match(path)
        if match is None:
            return None
        return {name: self.convertors[name].convert(text) for name, text in match.groupdict().items()}


class Routes:
    """The rows by their paths; of paths that overlap, the first row's is taken."""

    def __init__(self, table: Sequence[Call]) -> None:
        by_path: dict[str, _Route] = {}
        for call in table:
            if call.path not in by_path:
                pattern, _, convertors = compile_path(call.path)
                by_path[call.path] = _Route(pattern, convertors)
            verb, verbs = call.verb.upper(), by_path[call.path].calls
            assert verb not in verbs, f"two rows for {verb} {call.path}"
            verbs[verb] = call
        self._plain = {path: route for path, route in by_path.items() if "{" not in path}
        # paths with variables, by their beginning: a request is compared with few of them
        self._patterns: dict[str, list[_Route]] = {}
        for path, route in by_path.items():
            if "{" in path:
                assert "{" not in _beginning(path), f"{path} begins with a variable"
                self._patterns.setdefault(_beginning(path), []).append(route)

    def find(self, scope: Scope) -> Found:
        """The row for a request. Args: scope: that of ASGI."""
        path = _path(scope)
        route, params = self._route(path)
        if route is None:
            return Found(face_of(path))
        verb, calls = scope["method"], route.calls
        face = next(iter(calls.values())).face
        call = calls.get(verb)
        if call is None and verb == "HEAD" and face is not Face.GANETI:
            call = calls.get("GET")
        return Found(call.face if call else face, call, params, tuple(calls))

    def _route(self, path: str) -> tuple[_Route | None, Mapping[str, object]]:
        if (route := self._plain.get(path)) is not None:
            return route, {}
        if len(path) <= _MAX_PATH:
            for route in self._patterns.get(_beginning(path), ()):
                if (params := route.params_of(path)) is not None:
                    return route, params
        return None, {}


def face_of(path: str) -> Face:
    """The face of a path that has no row."""
    if path in ("/", "/version", "/2") or path.startswith(_GANETI):
        return Face.GANETI
    return Face.PAGE if path == "/ui" or path.startswith("/ui/") else Face.OURS


def _beginning(path: str) -> str:
    """The first two parts: "/3/jobs"."""
    return "/".join(path.split("/", 3)[:3])


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    text = raw.decode("latin-1")
    return text if text.startswith(_GANETI) else scope["path"]
