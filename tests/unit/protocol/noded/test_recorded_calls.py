"""What reached a real node daemon, read and written again by the calls (noded.md 4 to 7)."""

import json

import pytest

from common.errors import GantryError, InvalidRequest
from protocol.noded.call import CallRefused, failure_body, read_reply, read_request, reply_body, request_body
from protocol.noded.procedures import REFUSED
from tests.support.machines.noded import CLASSES, RECORDED_WITH_INSTANCES, RecordedCall, recorded_calls

ALL = [*recorded_calls(), *recorded_calls(RECORDED_WITH_INSTANCES)]
SPOKEN = [call for call in ALL if call.procedure in CLASSES]


def _names(calls: list[RecordedCall]) -> list[str]:
    return [f"{number}-{call.procedure}" for number, call in enumerate(calls)]


def test_each_recorded_procedure_has_a_class_or_a_reason() -> None:
    recorded = {call.procedure for call in ALL}

    assert recorded <= CLASSES.keys() | REFUSED.keys()
    assert len(recorded & CLASSES.keys()) >= 8


@pytest.mark.parametrize("recorded", SPOKEN, ids=_names(SPOKEN))
def test_a_recorded_request_is_written_again(recorded: RecordedCall) -> None:
    call = read_request(CLASSES[recorded.procedure], recorded.request)

    written = request_body(call)

    if recorded.by_python:
        # the job processes of Ganeti pack from 512 bytes on, and put spaces between
        again = read_request(CLASSES[recorded.procedure], written)
        assert again == call
        assert _unpacked(written) == _unpacked(recorded.request)
    elif recorded.procedure in ("set_watcher_pause", "instance_console_info"):
        # the same number, in another notation: 1.795182731556479e9
        assert json.loads(written) == json.loads(recorded.request)
    else:
        assert written == recorded.request


@pytest.mark.parametrize("recorded", SPOKEN, ids=_names(SPOKEN))
def test_a_recorded_reply_is_written_again(recorded: RecordedCall) -> None:
    kind = CLASSES[recorded.procedure]
    call = read_request(kind, recorded.request)
    try:
        written = reply_body(kind, read_reply(call, recorded.reply))
    except CallRefused as refusal:
        written = failure_body(refusal.message)

    if recorded.procedure == "node_info":
        # the order of its keys varies
        assert json.loads(written) == json.loads(recorded.reply)
    else:
        assert written == recorded.reply


def test_a_reply_to_another_procedure_is_not_taken() -> None:
    updates = [each for each in SPOKEN if each.procedure == "jobqueue_update"]
    facts = next(each for each in SPOKEN if each.procedure == "node_info")
    call = read_request(CLASSES["jobqueue_update"], updates[0].request)

    with pytest.raises(GantryError, match="expected null"):
        read_reply(call, facts.reply)


def _unpacked(request: bytes) -> object:
    """The arguments, with contents of files unpacked."""
    call = [each if not _is_packed(each) else "unpacked" for each in json.loads(request)]
    return call


def _is_packed(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], str)


def test_arguments_that_are_nested_too_deeply_are_refused_with_the_limit() -> None:
    kind = next(iter(CLASSES.values()))

    with pytest.raises(InvalidRequest, match="nested deeper than 128 levels"):
        read_request(kind, b"[" * 500 + b"]" * 500)
