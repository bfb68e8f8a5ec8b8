"""Both clients and the real node daemon: typed replies, epochs, restarts under a kept connection (DESIGN 12 and 13)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio

from common.ids import JobId
from protocol.noded.call import AnyCall, Content, Failed, FailureKind, NodeAddress, Outcome, Replied
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.facts import HypervisorSpec, NodeInfo
from protocol.noded.files import WireNames
from protocol.noded.membership import NodeVersion
from protocol.noded.statefiles import FileRename, JobqueueRename, JobqueueUpdate
from tests.support.machines.nodes import HOST, Node

Ask = Callable[..., Mapping[str, Outcome[Any]]]


def _by_trio(node: Node, call: AnyCall, epoch: int | None = None) -> Mapping[str, Outcome[Any]]:
    async def ask() -> Mapping[str, Outcome[Any]]:
        async with NodeClient(CertificateFiles.of(node.paths), epoch=lambda: epoch) as client:
            return await client.call_nodes([_address(node)], call)

    return trio.run(ask)


def _by_blocking(node: Node, call: AnyCall, epoch: int | None = None) -> Mapping[str, Outcome[Any]]:
    return BlockingNodeClient(CertificateFiles.of(node.paths), epoch=epoch).call_nodes([_address(node)], call)


@pytest.fixture(params=[_by_trio, _by_blocking], ids=["trio", "blocking"])
def ask(request: pytest.FixtureRequest) -> Ask:
    form: Ask = request.param
    return form


def _address(node: Node) -> NodeAddress:
    return NodeAddress("node2", HOST, node.port)


def _update(node: Node, job_id: int, data: bytes) -> JobqueueUpdate:
    names = WireNames.of_installation(node.root, {})
    return JobqueueUpdate(names.to_wire(node.paths.job_file(JobId(job_id))), Content(data))


def test_typed_calls_get_typed_replies(ask: Ask, node: Node) -> None:
    facts = ask(node, NodeInfo(None, (HypervisorSpec("fake", {}),)))["node2"]

    assert ask(node, NodeVersion()) == {"node2": Replied(3000000)}
    assert isinstance(facts, Replied)
    assert facts.value.hypervisors[0].memory_total > 0


@pytest.mark.parametrize("data", [b"{}", b"x" * 5000, '{"a": "ü"}'.encode(), bytes(range(256)) * 40000])
def test_a_file_arrives_byte_for_byte(data: bytes, ask: Ask, node: Node) -> None:
    assert ask(node, _update(node, 11, data)) == {"node2": Replied(None)}

    assert node.paths.job_file(JobId(11)).read_bytes() == data


def test_each_move_has_its_null_and_a_second_delivery_fails(ask: Ask, node: Node) -> None:
    ask(node, _update(node, 12, b"{}"))
    rename = JobqueueRename((FileRename(node.job_name(12), node.name(node.paths.archived_job_file(JobId(12)))),))

    assert ask(node, rename) == {"node2": Replied((None,))}
    again = ask(node, rename)["node2"]

    assert isinstance(again, Failed)
    assert again.kind is FailureKind.REFUSED


def test_an_old_master_is_told_apart_from_other_refusals(ask: Ask, own: Node) -> None:
    reply = ask(own, _update(own, 1, b"new"), 8)["node2"]
    old = ask(own, _update(own, 1, b"old"), 7)["node2"]
    other = ask(own, JobqueueUpdate("/etc/passwd", Content(b"")), 8)["node2"]
    ganetis = ask(own, NodeVersion())["node2"]

    assert isinstance(reply, Replied)
    assert reply.epoch == 8
    assert isinstance(old, Failed)
    assert old.kind is FailureKind.OUTDATED
    assert "this node has seen 8" in old.text
    assert own.paths.job_file(JobId(1)).read_bytes() == b"new"
    assert isinstance(other, Failed)
    assert other.kind is FailureKind.REFUSED
    # how a new master learns which epoch it must exceed
    assert isinstance(ganetis, Replied)
    assert ganetis.epoch == 8


def test_a_caller_that_is_not_a_candidate_is_told_so(ask: Ask, node: Node) -> None:
    node.set_candidates(node.server_pem)

    failed = ask(node, NodeVersion())["node2"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.REFUSED
    assert "not that of a master candidate (HTTP 403)" in failed.text


def test_a_restarted_node_daemon_costs_a_kept_connection_and_no_call(own: Node) -> None:
    async def ask() -> None:
        async with NodeClient(CertificateFiles.of(own.paths)) as client:
            for job_id in range(1, 4):
                assert await client.call_nodes([_address(own)], _update(own, job_id, b"{}")) == {"node2": Replied(None)}
                own.kill()
                down = (await client.call_nodes([_address(own)], _update(own, 9, b"{}")))["node2"]
                assert isinstance(down, Failed)
                assert down.kind is FailureKind.UNREACHABLE
                own.start()
                # its pause is of no interest here
                replied = await client.call_nodes([_address(own)], NodeVersion(), even_paused=True)
                assert replied == {"node2": Replied(3000000)}

    trio.run(ask)

    assert {own.paths.job_file(JobId(job_id)).exists() for job_id in range(1, 4)} == {True}
    assert not own.paths.job_file(JobId(9)).exists()
