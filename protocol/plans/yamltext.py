"""YAML of a user: what its words mean, and where in the text each value is.

Theory. Of PyYAML only the parser is used, which makes events of a text. What a plain word means is decided here, by the
core schema of YAML 1.2: `true` and `null` are what they look like; `on`, `yes`, `no`, `1:30` and `2026-11-21` are
texts. A number that the schemas read differently, as 010, is refused. So no word means anything that its writer did
not see. Tags are refused, as no value needs one. Anchors, aliases and merge keys (`<<`) are taken; what they expand
to is bounded, as is the nesting, so that no small file becomes a large one.

Source: DESIGN section 16; yaml.org/spec/1.2.2, section 10.3.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn, Protocol

import attrs
import yaml

from common.errors import InvalidRequest

MOST_VALUES: Final = 1_000_000
DEEPEST: Final = 100
_NULLS: Final = ("null", "Null", "NULL", "~", "")
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_DOUBTFUL: Final = re.compile(
    r"[-+]?0[0-9_]+|[-+]?0[box][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*|[-+]?[0-9]{19,}", re.ASCII
)
_ENDLESS: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_MERGE: Final = "<<"


@attrs.frozen(eq=False)
class YamlNode:
    """A value in the text."""

    # from 1
    line: int
    column: int
    # number of values in it, aliases counted wherever they stand
    size: int
    # number of levels of values in each other, through aliases too, at most DEEPEST
    depth: int

    def value(self) -> object:
        """What it means."""
        raise NotImplementedError

    def inner(self, step: str | int) -> "YamlNode | None":
        """The value at this key or place; None: there is none."""
        return None

    def locate(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column of a value in it, or of what is next around one that is not there."""
        node = self
        for step in path:
            found = node.inner(step)
            if found is None:
                break
            node = found
        return node.line, node.column


@attrs.frozen(eq=False)
class Scalar(YamlNode):
    # as the user wrote it, without quotes
    text: str
    _value: object

    def value(self) -> object:
        return self._value


@attrs.frozen(eq=False)
class Items(YamlNode):
    nodes: Sequence[YamlNode]

    def value(self) -> object:
        return [node.value() for node in self.nodes]

    def inner(self, step: str | int) -> YamlNode | None:
        return self.nodes[step] if isinstance(step, int) and step < len(self.nodes) else None


@attrs.frozen(eq=False)
class Pairs(YamlNode):
    # own keys first, then merged ones
    nodes: dict[str, YamlNode]

    def value(self) -> object:
        return {key: node.value() for key, node in self.nodes.items()}

    def inner(self, step: str | int) -> YamlNode | None:
        return self.nodes.get(step) if isinstance(step, str) else None


def read_yaml(text: bytes, name: str) -> YamlNode:
    """Read one document.

    Raises: InvalidRequest: it is not YAML, is more than one document, or has what is told above; with line and column.
    """
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InvalidRequest(f"{name}:{line}:1: not YAML: byte {error.start + 1} is not UTF-8") from None
    try:
        return _Composer(name).read(decoded)
    except yaml.reader.ReaderError as error:
        before = decoded[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise InvalidRequest(f"{name}:{line}:{column}: not YAML: character U+{code:04X} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise InvalidRequest(f"{name}:{line}:{column}: not YAML: {reason}") from None


class _Mark(Protocol):
    # from 0
    line: int
    column: int


class _Event(Protocol):
    """An event of the parser; which attributes there are depends on its class."""

    start_mark: _Mark
    anchor: str | None
    tag: str | None
    # of a scalar
    style: str | None
    value: str


class _Composer:
    """Makes nodes of the events of a text."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._anchors: dict[str, YamlNode] = {}

    def read(self, text: str) -> YamlNode:
        # the parser in C, where it was built, does not know every line break of the one in Python
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        events: Iterator[_Event] = yaml.parse(text, Loader=loader)
        root: YamlNode | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._refuse(event, "a second document begins; write one in each file")
                root = self._node(next(events), events, 1)
        if root is None:
            raise InvalidRequest(f"{self._name}:1:1: it is empty")
        return root

    def _node(self, event: _Event, events: Iterator[_Event], depth: int) -> YamlNode:
        if depth > DEEPEST:
            self._refuse(event, f"it is nested deeper than {DEEPEST} levels")
        if isinstance(event, yaml.AliasEvent):
            found = self._anchors.get(event.anchor or "")
            if found is None:
                self._refuse(event, f"no anchor '&{event.anchor}' stands above this alias")
            return found
        if event.tag is not None:
            self._refuse(event, f"tags such as {event.tag} are not taken; put a text into quotes")
        node = self._made(event, events, depth)
        if node.size > MOST_VALUES:
            self._refuse(event, f"its aliases make more than {MOST_VALUES:,} values of it")
        if node.depth > DEEPEST:
            self._refuse(event, f"its aliases nest it deeper than {DEEPEST} levels")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _made(self, event: _Event, events: Iterator[_Event], depth: int) -> YamlNode:
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.style is None or event.style == ""
            return Scalar(*place, 1, 1, event.value, self._meaning(event) if is_plain else event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            nodes = []
            while not isinstance(each := next(events), yaml.SequenceEndEvent):
                nodes.append(self._node(each, events, depth + 1))
            return Items(*place, 1 + sum(node.size for node in nodes), _levels(nodes), nodes)
        return self._pairs(place, events, depth)

    def _pairs(self, place: tuple[int, int], events: Iterator[_Event], depth: int) -> YamlNode:
        own: dict[str, YamlNode] = {}
        merged: list[YamlNode] = []
        while not isinstance(each := next(events), yaml.MappingEndEvent):
            key = self._node(each, events, depth + 1)
            if not isinstance(key, Scalar):
                self._refuse(each, "a key must be a word")
            value = self._node(next(events), events, depth + 1)
            if key.text == _MERGE and each.style in (None, ""):
                merged += self._merged(each, value)
            elif key.text in own:
                self._refuse(each, f"the key '{key.text}' is there twice; write it once")
            else:
                own[key.text] = value
        for source in merged:
            assert isinstance(source, Pairs)
            own = {**own, **{key: node for key, node in source.nodes.items() if key not in own}}
        return Pairs(*place, 1 + sum(1 + node.size for node in own.values()), _levels(own.values()), own)

    def _merged(self, event: _Event, value: YamlNode) -> Sequence[YamlNode]:
        found = value.nodes if isinstance(value, Items) else [value]
        if not all(isinstance(node, Pairs) for node in found):
            self._refuse(event, "'<<' takes a mapping, or a list of mappings, such as *base")
        return found

    def _meaning(self, event: _Event) -> object:
        """What a plain word means."""
        text = event.value
        if text in _NULLS:
            return None
        if text in _BOOLS:
            return _BOOLS[text]
        if _INTEGER.fullmatch(text) is not None:
            return int(text)
        if _DOUBTFUL.fullmatch(text) is not None or _ENDLESS.fullmatch(text) is not None:
            self._refuse(event, f"{text} is not one number to all who read YAML; write it plainly, or a text in quotes")
        if _FLOAT.fullmatch(text) is not None and math.isfinite(float(text)):
            return float(text)
        return text

    def _refuse(self, event: _Event, reason: str) -> NoReturn:
        mark = event.start_mark
        raise InvalidRequest(f"{self._name}:{mark.line + 1}:{mark.column + 1}: {reason}")


def _levels(inner: Iterable[YamlNode]) -> int:
    """The depth of a node with these in it."""
    return 1 + max((node.depth for node in inner), default=0)
