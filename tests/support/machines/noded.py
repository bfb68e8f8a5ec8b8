"""What reached a real node daemon of Ganeti, and random calls of every class."""

import enum
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from protocol.noded.call import AnyCall
from protocol.noded.procedures import call_classes

_DATA = Path(__file__).parents[2] / "data" / "noded"
RECORDED = _DATA / "rpc-node2.jsonl"
# of a cluster that is no virtual one, with instances
RECORDED_WITH_INSTANCES = _DATA / "rpc-node3.jsonl"
CLASSES: Mapping[str, type[AnyCall]] = {kind.METHOD: kind for kind in call_classes()}


@attrs.frozen
class RecordedCall:
    procedure: str
    request: bytes
    reply: bytes
    # whether a job process sent it; else luxid or wconfd did
    by_python: bool


def recorded_calls(path: Path = RECORDED) -> list[RecordedCall]:
    """The calls of a recording, in their order."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        RecordedCall(
            row["path"].removeprefix("/"),
            row["req"].encode(),
            row["resp"].encode(),
            by_python=any(name == "User-Agent" for name, _ in row["req_headers"]),
        )
        for row in rows
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_SIMPLE: Mapping[object, st.SearchStrategy[Any]] = {
    object: _JSON,
    str: st.text(max_size=20),
    bytes: st.binary(max_size=200) | st.binary(min_size=1, max_size=9).map(lambda part: part * 1000),
    int: st.integers(-(2**63) + 1, 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    None: st.none(),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type that occurs in calls and replies."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(member) for member in arguments])
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.text(max_size=5), values_of(arguments[1]), max_size=3)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in attrs.fields(kind)})


def reply_type(kind: type[AnyCall]) -> Any:
    """The type of a procedure's payload."""
    return get_args(kind.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # a class of a generic base has it
