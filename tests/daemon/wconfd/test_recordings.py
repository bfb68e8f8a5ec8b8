"""A recorded conversation with Ganeti 3.0.2's wconfd about locks, held again with ours.

The recording has 156 calls, the SIGHUPs that came of them, and `locks.data` after some. What may
differ is named here; all else is the same to the byte of its JSON.
"""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.wconfd.conftest import NO_SWEEP
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.fakes.durable import durable_locks

RECORDING = CHECKOUT / "tests/data/ganeti-3.0.2/wconfd-locks.jsonl"
RECORDED_FOLDER, RECORDED_PID = "/var/run/ganeti/livelocks", "17760"
LIVING = ("capture_1001", "capture_1002", "capture_1003", "capture_luxid-ThreadId 99")
# dead already when it takes its lock, which Ganeti's daemon sees only when told to look; ours sees it
# at once, so here it dies just before
DYING, DIES_BEFORE = "capture_1004", "cleanupLocks"
# its reply is not UTF-8: Ganeti's daemon cuts characters to eight bits (wconfd.md 11, BUG-1)
MANGLED = ("echo", 'hello é "q"')


class Client:
    """What the recorded client was: one process, several connections and livelocks."""

    def __init__(self, cluster: Cluster, holder: Holder, connect: Callable[[], Wire]) -> None:
        self._folder = cluster.paths.livelocks
        self._pid = str(holder.pid)
        self._connect = connect
        self._wires: dict[int, Wire] = {}
        self._livelocks = {name: self._lock(name) for name in (*LIVING, DYING)}

    def _lock(self, name: str) -> int:
        fd = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def here(self, text: str) -> str:
        """A recorded text with the livelocks and the pid of this run."""
        return text.replace(RECORDED_FOLDER, str(self._folder)).replace(RECORDED_PID, self._pid)

    def wire(self, number: int) -> Wire:
        if number not in self._wires:
            self._wires[number] = self._connect()
        return self._wires[number]

    def die(self, name: str) -> None:
        os.close(self._livelocks.pop(name))

    def close(self) -> None:
        for fd in self._livelocks.values():
            os.close(fd)


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDING.read_text().splitlines()]


def test_the_same_calls_get_the_same_answers_signals_and_file(
    idle: Cluster, spawn: Callable[[int], Holder], connect: Callable[[], Wire]
) -> None:
    idle.configure(f"{NO_SWEEP}lock_journal = false\n")
    idle.start("wconfd")
    check_recording(idle, spawn, connect, Path.read_bytes)


def test_with_a_journal_they_do_as_well_and_both_files_say_it(
    cluster: Cluster, spawn: Callable[[int], Holder], connect: Callable[[], Wire]
) -> None:
    check_recording(cluster, spawn, connect, durable_locks)


def check_recording(
    cluster: Cluster, spawn: Callable[[int], Holder], connect: Callable[[], Wire], read: Callable[[Path], bytes]
) -> None:
    process = spawn(1)
    client = Client(cluster, process, connect)
    lines = recorded()
    assert sum("req" in line for line in lines) == 156

    signals, is_next = 0, False
    for line in lines:
        if "req" in line:
            if line["name"] == DIES_BEFORE:
                client.die(DYING)
            check_call(client, line)
            if is_next:
                # now, since two that come together would be one
                assert process.told()
                signals, is_next = signals + 1, False
        elif "file" in line:
            content = read(cluster.paths.locks_data.parent / line["file"])
            assert json.loads(content) == json.loads(client.here(line["content"])), line
        else:
            # it was recorded before the reply to the call that brings it
            is_next = True

    assert signals == 2
    client.close()


def check_call(client: Client, line: dict[str, Any]) -> None:
    wire = client.wire(line["conn"])

    wire.send_bytes(client.here(line["req"]).encode() + b"\x03")
    reply = wire.reply()

    if line["resp"] is None:
        assert (line["name"], reply["result"]) == MANGLED
        return
    expected = json.loads(client.here(line["resp"]))
    assert shape(reply) == shape(expected), line["name"]
    if line.get("closed"):
        with pytest.raises(EOFError):
            wire.reply()


def shape(reply: dict[str, Any]) -> Any:
    """A reply without what may differ: the texts of errors, and the third key that ours have."""
    match reply:
        case {"success": True, "result": result}:
            return result
        case {"success": False, "result": [str(name), [str()]]}:
            return ("error", name)
        case {"success": False, "result": str()}:
            return "no request"
        case _:
            raise AssertionError(f"unknown form: {reply}")
