"""A file of values, and the place of each in its text.

Source: DESIGN section 16.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.jsontext import TooDeep
from common.jsontext import read_json as bounded

# how to get from the whole to a value: keys and places
Path = tuple[str | int, ...]
# bytes; ten thousand jobs have a tenth of it
LONGEST: Final = 64 * 2**20
_YAML: Final = (".yaml", ".yml")


@attrs.frozen
class PlanDocument:
    """What a file holds: dicts, lists, texts, numbers, booleans and None."""

    # its name, as errors tell it
    name: str
    value: object
    # returns line and column, from 1, of a value, or of what is next around it
    _locate: Callable[[Path], tuple[int, int]]

    def at(self, path: Path) -> str:
        """`plan.yaml:12:5`."""
        line, column = self._locate(path)
        return f"{self.name}:{line}:{column}"

    def error(self, path: Path, message: str) -> InvalidRequest:
        """An error in this value."""
        return InvalidRequest(f"{self.at(path)}: {message}")

    def error_of_value(self, path: Path, message: str) -> InvalidRequest:
        """An error whose message speaks of the value alone: with its path before it, as where no lines are."""
        return self.error(path, f"{path_text(path)}: {message}" if path else message)


def read_document(text: bytes, name: str) -> PlanDocument:
    """Read JSON or YAML: by the end of the file's name, else JSON if it begins like JSON.

    Raises: InvalidRequest: it is neither, or says what cannot be meant; with line and column.
    """
    if len(text) > LONGEST:
        raise InvalidRequest(f"{name} has {len(text):,} bytes, of at most {LONGEST:,}; split it")
    if not name.endswith(_YAML) and (name.endswith(".json") or text.lstrip()[:1] in (b"{", b"[")):
        return PlanDocument(name, read_json(text, name), lambda path: locate_json(text, path))
    # imported late: few files are YAML
    from protocol.plans.yamltext import read_yaml

    root = read_yaml(text, name)
    return PlanDocument(name, root.value(), root.locate)


def shown(value: object) -> str:
    """A value as an error tells it."""
    import orjson

    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def path_text(path: Sequence[str | int]) -> str:
    """`jobs[2].env`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


# JSON of a user, and where in its text a value is.
#
# Source: DESIGN section 16.


_BLANK: Final = re.compile(r"[ \t\r\n]*")
_ATOM: Final = re.compile(r"[^ \t\r\n,\]}]+")
_TOKEN: Final = re.compile(r'["{}\[\],:]')
_DECODER: Final = json.JSONDecoder()


def read_json(text: bytes, name: str) -> object:
    """Raises: InvalidRequest: the text is not JSON, with line and column; or an object has a key twice."""
    try:
        value = bounded(text)
    except orjson.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        reason = reason.partition(": line ")[0]
        raise InvalidRequest(f"{name}:{error.lineno}:{error.colno}: not JSON: {reason}") from None
    except TooDeep as error:
        raise InvalidRequest(f"{name}: {error.message}") from None
    _refuse_repeated_keys(text, name)
    return value


def _refuse_repeated_keys(text: bytes, name: str) -> None:
    """Refuse a key that an object has twice, as a lock in two modes: only the last value would count."""

    def check(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            raise _Repeated

    try:
        json.loads(text, object_pairs_hook=check)
    except _Repeated:
        key, (line, column) = _repeated_key(text.decode())
        raise InvalidRequest(f"{name}:{line}:{column}: an object has the key '{key}' twice; write it once") from None


class _Repeated(Exception):
    """An object has a key twice."""


def _repeated_key(text: str) -> tuple[str, tuple[int, int]]:
    """The first key that stands a second time in its object, with its line and column; there is one."""
    # keys of each object around; None: it is a list
    around: list[set[str] | None] = []
    at, before = 0, ""
    while True:
        match = _TOKEN.search(text, at)
        assert match is not None
        sign, at = match[0], match.end()
        if sign in "{[":
            around.append(set() if sign == "{" else None)
        elif sign in "}]":
            around.pop()
        elif sign == '"':
            key, at = _DECODER.raw_decode(text, match.start())
            keys = around[-1] if around and before in ("{", ",") else None
            if keys is not None and key in keys:
                return str(key), _line_and_column(text, match.start())
            if keys is not None:
                keys.add(key)
        before = sign


def locate_json(text: bytes, path: Path) -> tuple[int, int]:
    """Line and column of a value in a text that `read_json` has read; of what is next around one that is not there."""
    decoded = text.decode()
    return _line_and_column(decoded, _Scan(decoded).find(path))


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


class _Scan:
    """Walks along a text of JSON without making values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def find(self, path: Path) -> int:
        """The place of the value at the end of the path."""
        self._blank()
        begin = self._at
        for step in path:
            if not self._enter(step):
                break
            begin = self._at
        return begin

    def _enter(self, step: str | int) -> bool:
        """Go to a value inside of the one here; False: it is not there."""
        opening = self._text[self._at : self._at + 1]
        if opening not in ("{", "["):
            return False
        self._at += 1
        count = 0
        while self._more():
            if (self._key() if opening == "{" else count) == step:
                return True
            self._skip()
            count += 1
        return False

    def _more(self) -> bool:
        """Whether another element begins here."""
        self._blank()
        if self._text[self._at : self._at + 1] == ",":
            self._at += 1
            self._blank()
        return self._text[self._at : self._at + 1] not in ("}", "]", "")

    def _key(self) -> str:
        key, self._at = _DECODER.raw_decode(self._text, self._at)
        self._blank()
        # the colon
        self._at += 1
        self._blank()
        return str(key)

    def _skip(self) -> None:
        """Go behind the value here."""
        depth = 0
        while True:
            self._blank()
            sign = self._text[self._at : self._at + 1]
            if sign == '"':
                _, self._at = _DECODER.raw_decode(self._text, self._at)
            elif sign and sign in "{}[],:":
                depth += (sign in "{[") - (sign in "}]")
                self._at += 1
            else:
                match = _ATOM.match(self._text, self._at)
                self._at = len(self._text) if match is None else match.end()
            if depth == 0:
                return

    def _blank(self) -> None:
        match = _BLANK.match(self._text, self._at)
        self._at = self._at if match is None else match.end()
