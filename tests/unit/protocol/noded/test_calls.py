"""Calls of node daemons: the table of all procedures, odd bodies, and bodies that are refused (noded.md 4 to 6)."""

import json

import pytest

from common.errors import InvalidRequest, NotFound, ProtocolError
from protocol.noded.call import (
    AnyCall,
    CallRefused,
    Content,
    failure_body,
    read_reply,
    read_request,
    reply_body,
    request_body,
)
from protocol.noded.commands import TestDelay
from protocol.noded.facts import (
    ExportList,
    FoundInstance,
    HypervisorFacts,
    InstanceConsoleInfo,
    InstanceInfo,
    NodeFacts,
    NodeInfo,
)
from protocol.noded.files import FileUpload, SsconfValue, UploadFile, UploadFileSingle, WriteSsconfFiles
from protocol.noded.membership import MasterNodeName, NodeActivateMasterIp, NodeVersion
from protocol.noded.procedures import REFUSED, call_classes, why_refused
from protocol.noded.statefiles import PREFIX, FileRename, JobqueuePurge, JobqueueRename, JobqueueUpdate
from tests.support.machines.noded import CLASSES

FILE = FileUpload("/etc/hosts", Content(b"x"), 0o644, "root", "root", None, None)


def test_the_table_has_all_109_procedures_once() -> None:
    assert len(CLASSES) == len(call_classes())
    assert not CLASSES.keys() & REFUSED.keys()
    assert len({name for name in CLASSES if not name.startswith(PREFIX)}) + len(REFUSED) == 109


def test_a_procedure_without_a_class_is_refused_with_its_need() -> None:
    assert why_refused("blockdev_create") == (
        "'blockdev_create' needs a storage backend, which this node daemon does not have"
    )
    with pytest.raises(NotFound, match="there is no procedure 'blockdev_mage'"):
        why_refused("blockdev_mage")


@pytest.mark.parametrize("kind", [NodeVersion, ExportList, MasterNodeName, JobqueuePurge])
@pytest.mark.parametrize("body", [b"[]", b"{}", b"[1, 2]", b"null", b'{"a": 1}'])
def test_a_procedure_without_arguments_takes_any_json(kind: type[AnyCall], body: bytes) -> None:
    assert read_request(kind, body) == kind()
    assert request_body(kind()) == b"[]"


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (NodeVersion, b"", "the body of version is not JSON"),
        (NodeVersion, b"[", "the body of version is not JSON"),
        (TestDelay, b"", "the body of test_delay is not JSON"),
        (TestDelay, b"{}", "invalid arguments of test_delay: expected a list, got {}"),
        (TestDelay, b"[]", "test_delay lacks duration"),
        (TestDelay, b"[1, 2]", "test_delay takes at most 1 arguments"),
        (TestDelay, b"[true]", "expected number, got True"),
        (TestDelay, b"[NaN]", "not JSON"),
        (JobqueueUpdate, b'["/x", [0, 1]]', "expected [0, text] or [1, base64"),
        (JobqueueRename, b'[["/a", "/b"]]', "expected a list of old, new, got '/a' @ $.moves[0]"),
        (JobqueueRename, b'[["ab"]]', "expected a list of old, new, got 'ab'"),
        (UploadFile, b'["/etc/hosts", [0, ""], 1, "a", "b", null, null]', "upload_file takes at most 1 arguments"),
        (UploadFileSingle, b'[["/etc/hosts"]]', "upload_file_single lacks content"),
        (WriteSsconfFiles, b'[{"a": [1]}]', "expected a string or a list of strings"),
        (InstanceConsoleInfo, b"[]", "expected an object"),
        (NodeActivateMasterIp, b'[{"uuid": "u", "ip": "1", "netmask": 32, "netdev": "d"}, false]', "ip_family"),
    ],
)
def test_a_body_that_does_not_fit_is_refused(kind: type[AnyCall], body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_request(kind, body)

    assert said in caught.value.message


def test_the_two_forms_of_an_upload_differ_by_a_list() -> None:
    assert request_body(UploadFile(FILE)) == b'[["/etc/hosts",[0,"x"],420,"root","root",null,null]]'
    assert request_body(UploadFileSingle.of(FILE)) == b'["/etc/hosts",[0,"x"],420,"root","root",null,null]'
    assert UploadFileSingle.of(FILE).file == FILE


def test_the_question_for_consoles_is_one_object() -> None:
    body = b'{"web1":{"instance":{},"node":{},"group":{},"hvParams":{},"beParams":{}}}'

    assert request_body(read_request(InstanceConsoleInfo, body)) == body


@pytest.mark.parametrize(
    ("wire", "content"),
    [
        ([], b""),
        ("", b""),
        ([""], b""),
        (["a"], b"a\n"),
        ("a", b"a\n"),
        ("a\n", b"a\n"),
        (["a", "b"], b"a\nb\n"),
        ("a\nb", b"a\nb\n"),
        (["a", ""], b"a\n"),
    ],
)
def test_a_value_of_ssconf_becomes_the_file_of_ganetis(wire: object, content: bytes) -> None:
    assert SsconfValue.from_wire(wire).content == content


def test_a_delay_may_last_its_time_and_five_seconds() -> None:
    assert TestDelay(2.5).limit_s == 7
    assert TestDelay(-1).limit_s == 5
    assert NodeVersion().limit_s == 60


def test_a_missing_instance_is_an_empty_object() -> None:
    assert reply_body(InstanceInfo, FoundInstance(None)) == b"[true, {}]\n"
    assert read_reply(InstanceInfo("a", "kvm", {}), b"[true, {}]") == FoundInstance(None)


def test_facts_of_a_newer_node_daemon_are_taken() -> None:
    facts = {
        "memory_total": 3,
        "memory_dom0": 1,
        "memory_free": 2.4,
        "cpu_total": 2,
        "cpu_dom0": 2,
        "cpu_nodes": 1,
        "cpu_sockets": 1,
        "gpus": 4,
    }
    body = json.dumps([True, ["boot", None, [facts]]]).encode()

    assert read_reply(NodeInfo(None, ()), body) == NodeFacts("boot", None, (HypervisorFacts(3, 1, 2, 2, 2, 1, 1),))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"[true]", b'{"a": 1}', b"[true, null, 1]", b"[1, null]", b"[false, null]", b"null"]
)
def test_what_is_not_a_reply_is_told_with_its_beginning(body: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_reply(NodeVersion(), body)

    assert repr(body[:40]) in caught.value.message


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (JobqueuePurge(), b"[true, 1]"),
        (NodeVersion(), b'[true, "3"]'),
        (JobqueueRename((FileRename("/a", "/b"),)), b"[true, []]"),
        (JobqueueRename((FileRename("/a", "/b"),)), b"[true, [null, null]]"),
        (JobqueueRename((FileRename("/a", "/b"),)), b"[true, null]"),
    ],
)
def test_a_payload_of_another_shape_is_refused(call: AnyCall, body: bytes) -> None:
    with pytest.raises(ProtocolError, match=call.METHOD):
        read_reply(call, body)


@pytest.mark.parametrize(("text", "told"), [("queue locked", "queue locked"), ("", "the node daemon gave no reason")])
def test_a_failure_is_raised_with_its_text(text: str, told: str) -> None:
    with pytest.raises(CallRefused) as caught:
        read_reply(NodeVersion(), failure_body(text))

    assert caught.value.message == told
