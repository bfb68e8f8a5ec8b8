"""Every opcode with random parameters: what is written is read back the same; a wrong type is refused by name."""

import enum
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, get_args, get_origin

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.locks import Lock
from common.opcodes.base import OpCode, shape_of, with_secrets, write_opcode
from common.opcodes.registry import opcode_classes, parse_opcode
from common.opcodes.types import (
    ASKED_BY_OPCODES,
    VERIFY_ERRORS,
    AskedKind,
    DeviceChange,
    DiskIndex,
    DiskParams,
    ExportTarget,
    Json,
    JsonList,
    JsonObject,
    NicParams,
    NonEmpty,
    Number,
    Positive,
    RecreatedDisk,
    Size,
    VerifyError,
    Whole,
)
from common.queue.jobs import Dependency
from common.queue.reasons import ReasonEntry

Wire = st.SearchStrategy[Any]

_WORDS: Final = st.text(min_size=1, max_size=5)
_INTS: Final = st.integers(-(2**40), 2**40)
_NUMBERS: Final = _INTS | st.floats(-1e6, 1e6)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_OBJECTS: Final = st.dictionaries(st.text(max_size=5), _JSON, max_size=3)
_LOCKS: Final = st.sampled_from(["node/a", "node/b", "instance/x", "network/[lockset]", "cluster/BGL"])
_STATES: Final = st.lists(st.sampled_from(["success", "error", "canceled"]), max_size=2)

# the JSON values of each type of parameter
_VALUES: Final[Mapping[Any, Wire]] = {
    str: st.text(max_size=5),
    int: _INTS,
    bool: st.booleans(),
    NonEmpty: _WORDS,
    Whole: st.integers(0, 2**40),
    Positive: st.integers(1, 2**40),
    DiskIndex: st.integers(0, 15),
    Number: _NUMBERS,
    float: _NUMBERS,
    Size: st.integers(0, 2**40),
    Json: _JSON,
    JsonObject: _OBJECTS,
    JsonList: st.lists(_JSON, max_size=3),
    ExportTarget: _WORDS | st.lists(_JSON, max_size=3),
    VerifyError: st.sampled_from(sorted(VERIFY_ERRORS)),
    AskedKind: st.sampled_from(ASKED_BY_OPCODES),
    Lock: _LOCKS,
    Dependency: st.builds(lambda job_id, states: [job_id, states], st.integers(-5, 50), _STATES),
    ReasonEntry: st.tuples(st.text(max_size=3), st.text(max_size=3), st.integers(0, 2**60)).map(list),
}
_NO_NUL: Final = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)
# validators narrow these
_NARROWER: Final[Mapping[str, Wire]] = {
    "priority": st.sampled_from([-10, 0, 10]),
    "debug_level": st.integers(0, 9),
    "argv": st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), min_size=1, max_size=3
    ),
    "env": st.dictionaries(
        st.text(st.characters(exclude_characters="\0=", codec="utf-8"), min_size=1, max_size=5), _NO_NUL, max_size=3
    ),
    "user": st.sampled_from(["root", "größe", "a b"]),
    "cwd": _NO_NUL.map("/{}".format),
    "stdin_path": _NO_NUL.map("/{}".format),
    "exit_codes": st.lists(st.integers(0, 255), max_size=3),
    "duration": st.integers(0, 100) | st.floats(0, 100),
    "timeout": st.integers(0, 100),
    "memory": st.integers(2**20, 2**40),
    "cpus": st.sampled_from([0.5, 1, 8]),
    "nice": st.integers(-20, 19),
    "node": st.sampled_from(["web1", "größe.example.com"]),
    "retries": st.integers(0, 1000),
    "retry_delay": st.integers(0, 30),
    "retry_factor": st.sampled_from([1, 1.5, 100]),
    "retry_max": st.integers(30, 10**9),
    "retry_on": st.lists(st.sampled_from(["exit=75", "exit=64-78", "signal=KILL", "any"]), max_size=2),
    "fail_on": st.lists(st.sampled_from(["memory", "timeout"]), max_size=2),
    "ulimits": st.dictionaries(st.sampled_from(["nofile", "core"]), st.sampled_from([[100], [100, 200], [-1]])),
}


def _values(kind: Any) -> Wire:
    arguments = [argument for argument in get_args(kind) if argument is not NoneType]
    if kind in _VALUES:
        return _VALUES[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from([member.value for member in kind])
    if kind is NicParams or kind is DiskParams:
        return _structures(kind)
    if get_origin(kind) is tuple and arguments[-1] is Ellipsis:
        return _rows(arguments[0])
    if get_origin(kind) is tuple:
        return st.tuples(*map(_values, arguments)).map(list)
    if get_origin(kind) is Mapping:
        return st.dictionaries(*map(_values, arguments), max_size=3)
    return _values(arguments[0])


def _structures(kind: type[attrs.AttrsInstance]) -> Wire:
    own = {field.name: _values(field.type) for field in attrs.fields(kind) if field.name != "other"}
    known: Wire = st.fixed_dictionaries({}, optional=own)
    other = st.dictionaries(_WORDS.map(lambda word: f"x-{word}"), _JSON, max_size=2)
    return known if kind is NicParams else st.builds(lambda some, more: {**some, **more}, known, other)


def _rows(kind: Any) -> Wire:
    if kind is RecreatedDisk:
        index = _values(DiskIndex)
        return st.lists(index, max_size=3) | st.lists(st.tuples(index, _structures(DiskParams)).map(list), max_size=3)
    if get_origin(kind) is DeviceChange:
        params = _values(get_args(kind)[0])
        simple = st.sampled_from(["add", "attach", "remove", "detach"])
        action = simple | st.just("modify")
        forms = ((simple | _INTS, params), (action, _INTS, params), (action, _WORDS, params))
        return st.one_of(*(st.lists(st.tuples(*form).map(list), max_size=3) for form in forms))
    return st.lists(_values(kind), max_size=3)


def _opcodes(op_id: str) -> Wire:
    parameters = shape_of(opcode_classes()[op_id]).parameters.values()
    values = {part.name: _NARROWER.get(part.name, _values(part.kind)) for part in parameters}
    required = {part.name: values.pop(part.name) for part in parameters if part.required}
    return st.fixed_dictionaries({"OP_ID": st.just(op_id), **required}, optional=values).map(_possible)


def _possible(op: dict[str, Any]) -> dict[str, Any]:
    """A command reads a text or a file, not both; only one on a node can be ended by a failover.

    Only one with retries has terms for them, and one that may be run again leaves nothing behind.
    """
    needless = {"stdin_path"} if "stdin_text" in op else set()
    if "argv" in op and "node" not in op:
        needless.add("on_failover")
    if "argv" in op and "retries" not in op:
        needless |= {"retry_delay", "retry_factor", "retry_max", "retry_on", "fail_on"}
    if "argv" in op and ("retries" in op or "rerunnable" in op):
        needless.add("detach")
    return {key: value for key, value in op.items() if key not in needless}


@pytest.mark.parametrize("op_id", sorted(opcode_classes()))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_what_is_written_is_read_back_the_same(op_id: str, data: st.DataObject) -> None:
    op = parse_opcode(data.draw(_opcodes(op_id)))

    written = write_opcode(op)

    again = parse_opcode(written)
    assert with_secrets(again, op.secret_parameters() or {}) == with_secrets(op, op.secret_parameters() or {})
    assert write_opcode(again) == written


@pytest.mark.parametrize("op_id", sorted(opcode_classes()))
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_the_normal_form_holds_what_was_submitted(op_id: str, data: st.DataObject) -> None:
    submitted = data.draw(_opcodes(op_id))

    written = write_opcode(parse_opcode(submitted))

    hidden = {"osparams_secret"}
    given_values = {key: value for key, value in submitted.items() if value is not None and key not in hidden}
    assert {key: written[key] for key in given_values} == given_values


# of no type at all, or of one that a parameter does not have
_WRONG: Final[Mapping[str, Any]] = {"number": 5.5, "text": "wrong", "flag": True, "list": [1], "object": {"wrong": 1}}


def _json_type(kind: Any) -> str | None:
    """The JSON type that a parameter wants, told without its reader; None if it takes several."""
    if kind in (Json, ExportTarget):
        return None
    if kind in (int, float, Whole, Positive, DiskIndex, Number):
        return "number"
    if kind is bool:
        return "flag"
    if kind in (str, NonEmpty, VerifyError, AskedKind) or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return "text"
    if kind in (JsonObject, NicParams, DiskParams) or get_origin(kind) is Mapping:
        return "object"
    return "list"


def _wrong_values(op_id: str) -> list[tuple[str, Any]]:
    """Parameters with values of each type that they do not take."""
    return [
        (part.name, value)
        for part in shape_of(opcode_classes()[op_id]).parameters.values()
        if not hasattr(OpCode, part.name) or op_id == "OP_CLUSTER_QUERY"
        for what, value in _WRONG.items()
        if _json_type(part.kind) not in (None, what)
    ]


@pytest.mark.parametrize("op_id", [op_id for op_id in sorted(opcode_classes()) if _wrong_values(op_id)])
def test_a_value_of_a_wrong_type_is_refused_with_parameter_and_value(op_id: str) -> None:
    for name, value in _wrong_values(op_id):
        with pytest.raises(InvalidRequest) as caught:
            parse_opcode({"OP_ID": op_id, name: value})

        said = caught.value.message.removeprefix(f"invalid opcode {op_id}: ")
        faults = [part for part in said.split("; ") if part.startswith(name)]
        assert faults, (name, value, caught.value.message)
        assert f"got {value!r}" in faults[0], name
