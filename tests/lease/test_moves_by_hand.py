"""`gantry cluster` moves a real mastership: what operators see, and what becomes of a command meanwhile (DESIGN 14)."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from tests.cli.command import run
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.sockets.ports import free_port
from tests.support.wait import PATIENCE_S, wait_until


@pytest.fixture(scope="module")
def fleet(module_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseFleet]:
    root: Path = tmp_path_factory.mktemp("fleet")
    with LeaseFleet(root, module_etcd, 2) as fleet:
        for each in fleet:
            settings = each.cluster.root / "gantry.toml"
            place = f'address = "127.0.0.1"\nport = {free_port()}'
            settings.write_text(f"{settings.read_text()}[rapid]\nenabled = true\nssl = false\n{place}\n")
        fleet.up()
        yield fleet


class Events:
    """The events of a node's rapid; a context manager."""

    def __init__(self, node: Candidate, last: str = "") -> None:
        transport = httpx2.HTTPTransport(uds=str(node.paths.rapid_socket))
        self._client = httpx2.Client(transport=transport, base_url="http://rapid", timeout=PATIENCE_S)
        asked = self._client.build_request("GET", "/3/events", headers={"Last-Event-ID": last} if last else {})
        self._reply = self._client.send(asked, stream=True)
        self._lines = self._reply.iter_lines()
        self.status = self._reply.status_code
        self.last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reply.close()
        self._client.close()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Names and data, until the stream ends."""
        fields: dict[str, str] = {}
        # it may be cut off
        with contextlib.suppress(httpx2.RemoteProtocolError):
            for line in self._lines:
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif fields.keys() >= {"event", "data"}:
                    self.last = fields.get("id", self.last)
                    yield fields["event"], json.loads(fields["data"])
                    fields = {}


def follow_to(node: Candidate, last: str = "") -> Events:
    """Follow the events of a master, as soon as its rapid runs and knows that it is the master."""
    found: list[Events] = []

    def is_taken() -> bool:
        try:
            events = Events(node, last)
        except httpx2.TransportError:
            return False
        found.append(events)
        if events.status != 200:
            events.__exit__()
        return events.status == 200

    wait_until(is_taken, what=f"rapid of {node.name} takes streams")
    return found[-1]


def shown(node: Candidate) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(node.gantry("cluster", "--output", "json").out)
    return told


def may_follow(node: Candidate, asked: Candidate) -> bool:
    (member,) = [each for each in shown(asked)["members"] if each["name"] == node.name]
    return (member["role"], member["copies"], member["lag_files"]) == ("replica", "fresh", 0)


def told_by(node: Candidate) -> str:
    return node.gantry("status").out


def epoch_of(out: str, node: Candidate, *, above: int) -> int:
    """The epoch of which a move to this node has told at its end."""
    told = re.search(rf"'{node.name}' is the master now, epoch (\d+)\n\Z", out)
    assert told, out
    assert int(told[1]) > above
    return int(told[1])


def test_the_story_of_a_switchover_maintenance_and_a_takeover(fleet: LeaseFleet, tmp_path: Path) -> None:
    first = fleet.until_master()
    (second,) = [each for each in fleet if each is not first]
    wait_until(lambda: may_follow(second, first), what="the other one to be fit", state=lambda: shown(first))
    # every node tells the same
    assert {shown(node)["master"] for node in fleet} == {first.name}
    # on a slow machine it was lost, and won again
    told = re.search(rf"mastership: {first.name} has it, epoch (\d+); keeperd here: follow\n", told_by(second))
    assert told, told_by(second)
    epoch = int(told[1])

    gate = tmp_path / "gate"
    job = run(
        *("gnt-job", "--root", first.cluster.root, "run", "--node", second.name, "--"),
        *("sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done; echo whole"),
    )
    assert job.code == 0, job
    wait_until(lambda: first.cluster.status(1) == "running", what="the command to run")

    with follow_to(first) as events:
        begin = next(iter(events))
        moved = second.gantry("cluster", "switchover", second.name, "--limit", "2m")
        # it ends, so that the client looks for the new master
        for _ in events:
            pass

    assert begin == ("begin", begin[1] | {"resumed": False, "luxid": True})
    assert moved.code == 0, moved
    epoch = epoch_of(moved.out, second, above=epoch)
    assert second.serves()
    with follow_to(second, events.last) as again:
        # nothing is told twice, or left out: what it shows is to be read anew
        later = iter(again)
        name, state = next(later)
        # whether rapid has reached wconfd yet is open, as above
        assert (name, state | {"wconfd": True}) == ("begin", begin[1] | {"wconfd": True})
        gate.touch()
        ended = {"id": 1, "status": "success"}
        assert any(ended.items() <= job.items() for name, data in later if name == "jobs" for job in data["jobs"])
    assert second.cluster.wait(1) == ["success"]
    assert run("gnt-job", "--root", second.cluster.root, "output", "1").out == "whole\n"

    # in maintenance nobody follows by itself; a takeover names the next one
    assert second.gantry("cluster", "maintenance", "on").code == 0
    wait_until(lambda: may_follow(first, second), what="the first one to be fit again", state=lambda: shown(second))
    second.crash()
    wait_until(lambda: not shown(first)["master"], what="the lease to run out", state=lambda: shown(first))
    alone = first.gantry("cluster")
    assert alone.code == 3
    assert "maintenance: the mastership stays where it is" in alone.out

    # a slip of the fingers leaves nothing behind that would stand in the way
    slip = first.gantry("cluster", "takeover", "--i-accept-loss", "node9")
    assert (slip.code, "'node9' is no candidate whose keeperd runs; those are: " in slip.err) == (5, True), slip
    taken = first.gantry("cluster", "takeover", "--i-accept-loss", first.name)

    assert taken.code == 0, taken
    epoch_of(taken.out, first, above=epoch)
    assert first.cluster.status(1) == "success"
