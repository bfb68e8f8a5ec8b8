"""DESIGN section 4, "Envelope"; luxid.md 1.2-1.6; wconfd.md 1.3-1.5; JSON-RPC 2.0."""

import json
from typing import Any

import orjson
import pytest

from common.errors import (
    AlreadyPending,
    ConfigVerifyError,
    Denied,
    GantryError,
    InvalidRequest,
    JobQueueFull,
    LockRuleViolation,
    NotFound,
    OrderViolation,
    ProtocolError,
    RemoteError,
    UnknownMethod,
    UpgradeDeadlock,
)
from protocol.envelope import (
    Call,
    CallBatch,
    Dialect,
    MalformedRequest,
    failure,
    read_message,
    read_reply,
    request_bytes,
    success,
)

GANETI_CALL = Call("m", [])
RPC_CALL = Call("m", [], Dialect.JSONRPC, 7)


def refusal(payload: bytes) -> MalformedRequest:
    with pytest.raises(MalformedRequest) as caught:
        read_message(payload)
    return caught.value


def test_ganeti_request_is_read() -> None:
    assert read_message(b'{"method":"echo","args":["x",1]}') == Call("echo", ["x", 1])


def test_version_and_other_keys_are_ignored() -> None:
    assert read_message(b'{"method":"echo","args":[],"version":3000000,"x":1}') == Call("echo", [])


def test_white_space_around_a_request_is_accepted() -> None:
    assert read_message(b' \r\n{"method":"echo","args":[]}\n') == Call("echo", [])


def test_invalid_utf8_is_replaced() -> None:
    assert read_message(b'{"method":"echo","args":["a\xff\xe9b"]}') == Call("echo", ["a��b"])


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "not JSON"),
        (b"{nonsense", "not JSON"),
        (b'{"method":"m","args":[]} x', "not JSON"),
        (b'"text"', "not an object but 'text'"),
        (b"5", "not an object but 5"),
        (b'{"args":[]}', "no key 'method'"),
        (b'{"method":5,"args":[]}', "'method' must be a string, got 5"),
        (b'{"method":"m"}', "no key 'args'"),
    ],
)
def test_what_is_no_request_is_refused_by_name(payload: bytes, text: str) -> None:
    error = refusal(payload)

    assert text in error.message
    assert error.dialect is Dialect.GANETI
    assert not error.only_arguments


@pytest.mark.parametrize("args", [b"null", b"{}", b'"x"'])
def test_args_that_are_no_list_are_a_fault_of_the_arguments(args: bytes) -> None:
    error = refusal(b'{"method":"m","args":' + args + b"}")

    assert "'args' must be a list" in error.message
    assert error.only_arguments


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_deep_nesting_is_refused(bracket: bytes) -> None:
    error = refusal(bracket * 1_000_000)

    assert (error.message, error.code) == (
        "the JSON is nested deeper than 128 levels, which is the limit",
        "invalid",
    )


@pytest.mark.parametrize("levels", [127, 500, 900])
def test_a_deep_call_of_json_rpc_is_refused_under_its_id(levels: int) -> None:
    error = refusal(b'{"jsonrpc":"2.0","id":7,"method":"echo","params":[%b]}' % (b"[" * levels + b"]" * levels))

    assert (error.dialect, error.call_id, error.rpc_code) == (Dialect.JSONRPC, 7, -32602)
    assert "128 levels" in error.message


def test_refusal_of_a_long_value_is_short() -> None:
    error = refusal(json.dumps({"method": ["x" * 100_000], "args": []}).encode())
    assert len(error.message) < 200

    error = refusal(json.dumps("x" * 100_000).encode())
    assert len(error.message) < 200


@pytest.mark.parametrize(("params", "expected"), [(b',"params":[1]', [1]), (b',"params":{"a":1}', {"a": 1}), (b"", [])])
def test_jsonrpc_params_are_positional_named_or_absent(params: bytes, expected: Any) -> None:
    call = read_message(b'{"jsonrpc":"2.0","method":"m","id":7' + params + b"}")

    assert call == Call("m", expected, Dialect.JSONRPC, 7)


def test_jsonrpc_request_without_id_is_a_notification() -> None:
    assert read_message(b'{"jsonrpc":"2.0","method":"m"}') == Call("m", [], Dialect.JSONRPC, None, True)


def test_jsonrpc_request_with_null_id_wants_a_reply() -> None:
    assert read_message(b'{"jsonrpc":"2.0","method":"m","id":null}') == Call("m", [], Dialect.JSONRPC, None, False)


@pytest.mark.parametrize(
    ("payload", "code", "call_id"),
    [
        (b'{"jsonrpc":"2.0","method":"m","id":1', -32700, None),
        (b'{"jsonrpc":"1.0","method":"m","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","method":1,"id":"a"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":2}', -32600, 2),
        (b'{"jsonrpc":"2.0","method":"m","params":"x","id":2}', -32600, 2),
        (b'{"jsonrpc":"2.0","method":"m","id":true}', -32600, None),
        (b'{"jsonrpc":"2.0","method":"m","id":[1]}', -32600, None),
        (b"[]", -32600, None),
    ],
)
def test_malformed_jsonrpc_gets_a_standard_code_and_its_id(payload: bytes, code: int, call_id: Any) -> None:
    error = refusal(payload)
    reply = orjson.loads(failure(error, error))

    assert reply["error"]["code"] == code
    assert reply["id"] == call_id


def test_batch_keeps_order_and_each_bad_element_has_its_own_error() -> None:
    batch = read_message(b'[{"jsonrpc":"2.0","method":"a","id":1},3,{"method":"b"},{"jsonrpc":"2.0","method":"c"}]')

    assert isinstance(batch, CallBatch)
    first, number, no_version, notification = batch.calls
    assert first == Call("a", [], Dialect.JSONRPC, 1)
    assert isinstance(number, MalformedRequest)
    assert isinstance(no_version, MalformedRequest)
    assert notification == Call("c", [], Dialect.JSONRPC, None, True)


def test_result_has_the_dialect_of_the_call() -> None:
    assert orjson.loads(success(GANETI_CALL, [1])) == {"success": True, "result": [1]}
    assert orjson.loads(success(RPC_CALL, [1])) == {"jsonrpc": "2.0", "result": [1], "id": 7}


def test_ganeti_error_is_name_and_arguments_plus_what_they_leave_out() -> None:
    assert orjson.loads(failure(GANETI_CALL, NotFound("no job 5", job_id=5))) == {
        "success": False,
        "result": ["GenericError", ["no job 5"]],
        "error": {"code": "not_found", "fields": {"job_id": 5}},
    }


def test_ganeti_errors_keep_their_own_arguments() -> None:
    reply = orjson.loads(failure(GANETI_CALL, ConfigVerifyError("bad", ["one", "two"])))
    assert reply["result"] == ["ConfigVerifyError", ["bad", ["one", "two"]]]

    assert orjson.loads(failure(GANETI_CALL, JobQueueFull()))["result"] == ["JobQueueFull", []]


def test_plain_error_is_a_bare_text() -> None:
    assert orjson.loads(failure(Dialect.GANETI, InvalidRequest("bad"), plain=True)) == {
        "success": False,
        "result": "bad",
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownMethod("x"), -32601),
        (InvalidRequest("x"), -32602),
        (GantryError("x"), -32603),
        (NotFound("x"), -32001),
        (OrderViolation("x"), -32003),
        (Denied("x"), -32004),
    ],
)
def test_jsonrpc_error_has_a_code_of_its_kind(error: GantryError, code: int) -> None:
    assert orjson.loads(failure(RPC_CALL, error))["error"]["code"] == code


def test_jsonrpc_error_tells_code_name_arguments_and_fields() -> None:
    reply = orjson.loads(failure(RPC_CALL, NotFound("no job 5", job_id=5)))

    assert reply["id"] == 7
    assert reply["error"]["message"] == "no job 5"
    assert reply["error"]["data"] == {"code": "not_found", "error": "GenericError", "args": ["no job 5"], "job_id": 5}


def test_fragments_are_spliced_and_escaped() -> None:
    reply = success(GANETI_CALL, {"config": orjson.Fragment('{"a":"é"}'.encode())})

    assert reply == b'{"success":true,"result":{"config":{"a":"\\u00e9"}}}'


def test_value_that_is_no_json_is_a_bug() -> None:
    with pytest.raises(TypeError):
        success(GANETI_CALL, object())


def test_request_is_read_back_as_it_was_sent() -> None:
    assert read_message(request_bytes("echo", ["é", None])) == Call("echo", ["é", None])


def test_reply_gives_its_result() -> None:
    assert read_reply(success(GANETI_CALL, {"a": 1})) == {"a": 1}


def test_error_reply_becomes_a_remote_error_with_code_and_fields() -> None:
    with pytest.raises(RemoteError, match="no job 5") as caught:
        read_reply(failure(GANETI_CALL, NotFound("no job 5", job_id=5)))

    assert caught.value.code == "not_found"
    assert caught.value.wire_name == "GenericError"
    assert caught.value.wire_args() == ["no job 5"]
    assert caught.value.fields == {"job_id": 5}


def test_plain_error_reply_is_an_invalid_request() -> None:
    with pytest.raises(RemoteError, match="bad") as caught:
        read_reply(b'{"success":false,"result":"bad"}')

    assert caught.value.code == "invalid"


@pytest.mark.parametrize(
    ("name", "code"), [("OpPrereqError", "conflict"), ("JobLost", "not_found"), ("HooksAbort", "internal")]
)
def test_error_of_another_daemon_has_the_code_of_its_name(name: str, code: str) -> None:
    with pytest.raises(RemoteError) as caught:
        read_reply(orjson.dumps({"success": False, "result": [name, ["text", "wrong_state"]]}))

    assert caught.value.code == code
    assert caught.value.wire_args() == ["text", "wrong_state"]


def test_fields_of_an_error_cannot_replace_what_it_is() -> None:
    payload = {"success": False, "result": ["JobLost", ["x"]], "error": {"code": "c", "fields": {"code": "y", "a": 1}}}

    with pytest.raises(RemoteError) as caught:
        read_reply(orjson.dumps(payload))

    assert caught.value.code == "c"
    assert caught.value.fields == {"a": 1}


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", b'{"success":true}', b'{"success":false,"result":5}', b'{"success":false,"result":[1,2]}'],
)
def test_what_is_no_reply_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_reply(payload)


@pytest.mark.parametrize("kind", [OrderViolation, UpgradeDeadlock, AlreadyPending])
def test_a_broken_rule_of_the_locks_arrives_as_the_class_that_it_was(kind: type[LockRuleViolation]) -> None:
    error = kind("node/a is held", holder=["me", "/run/me"])

    with pytest.raises(kind, match="node/a is held") as caught:
        read_reply(failure(Call("tryUpdateLocks", []), error))

    assert isinstance(caught.value, RemoteError)
    assert (caught.value.code, caught.value.fields) == (kind.code, {"holder": ["me", "/run/me"]})
    rpc = orjson.loads(failure(Call("tryUpdateLocks", [], Dialect.JSONRPC, 1), error))
    assert rpc["error"]["data"]["kind"] == kind.kind


def test_an_error_of_a_kind_that_is_not_known_here_is_a_plain_one() -> None:
    for kind in ("weather", ["deadlock"], None):
        reply = {"success": False, "result": ["GenericError", ["x"]], "error": {"code": "conflict", "kind": kind}}

        with pytest.raises(RemoteError) as caught:
            read_reply(orjson.dumps(reply))

        assert type(caught.value) is RemoteError
