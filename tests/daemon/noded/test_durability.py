"""Files of a node daemon are old or new, and whole, whatever kills it or its disk (DESIGN 3; noded.md 6)."""

import json
import os
import resource
import socket
import threading
from http.client import HTTPException
from pathlib import Path

from common.ids import JobId
from tests.support.fakes.disks import no_room, small_disk
from tests.support.machines.nodes import HOST, Node
from tests.support.wait import wait_until

LARGE = 6 * 2**20


def upload(node: Node, content: str) -> bytes:
    name = node.name(node.paths.config_data)
    return json.dumps([name, [0, content], 0o640, "root", "root", None, None]).encode()


def test_a_kill_during_an_upload_leaves_the_old_file_or_the_new_one(own: Node) -> None:
    contents = [own.paths.config_data.read_text()]
    for letter in "abc":
        contents.append(letter * LARGE)
        sender = threading.Thread(target=_send_and_forget, args=(own, upload(own, contents[-1])))
        before = own.paths.config_data.stat().st_ino
        sender.start()
        wait_until(
            lambda: list(own.paths.data.glob("config.data-*.tmp")) or own.paths.config_data.stat().st_ino != before,  # noqa: B023  # called at once
            what="the upload is being written",
        )
        own.kill()
        sender.join()
        assert own.paths.config_data.read_text() in contents[-2:]
        contents[-1] = own.paths.config_data.read_text()
        own.start()


def _send_and_forget(node: Node, body: bytes) -> None:
    try:
        node.send("upload_file_single", body)
    except (OSError, HTTPException):
        # noded was killed, perhaps in the middle of its reply
        return


def test_old_temporary_files_of_killed_daemons_are_removed_and_young_ones_kept(idle: Node) -> None:
    folders = (idle.paths.data, idle.paths.queue)
    old = [folder / f"{name}-0123456789ab.tmp" for folder, name in zip(folders, ("config.data", "job-1"), strict=True)]
    young = idle.paths.queue / "job-2-0123456789ab.tmp"
    for path in (*old, young):
        path.touch()
    for path in old:
        os.utime(path, (1.0, 1.0))

    idle.start()

    assert [path.exists() for path in (*old, young)] == [False, False, True]


def test_a_full_disk_fails_the_call_and_leaves_the_files_whole(tmp_path: Path) -> None:
    with small_disk(tmp_path / "lib", kilobytes=1024), Node(tmp_path) as node:
        node.start()
        old = node.paths.config_data.read_bytes()
        assert node.call("jobqueue_update", [node.job_name(1), [0, "old"]]) == [True, None]
        with no_room(tmp_path / "lib"):
            for procedure, body in (
                ("jobqueue_update", json.dumps([node.job_name(1), [0, "x" * 9000]]).encode()),
                ("upload_file_single", upload(node, "x" * 9000)),
                ("write_ssconf_files", json.dumps([{"node_list": ["n" * 9000]}]).encode()),
            ):
                is_done, text = json.loads(node.send(procedure, body)[1])
                assert not is_done
                assert "no space left" in text
        assert node.paths.job_file(JobId(1)).read_text() == "old"
        assert node.paths.config_data.read_bytes() == old
        assert not list(node.paths.data.rglob("*.tmp"))
        assert node.call("jobqueue_update", [node.job_name(1), [0, "x" * 9000]]) == [True, None]


def test_a_shortage_of_descriptors_is_survived(own: Node) -> None:
    before = own.paths.config_data.read_text()
    peers: list[socket.socket] = []

    def is_short() -> bool:
        leave_descriptors(own, 0)
        peers.append(socket.create_connection((HOST, own.port)))
        return "accept.failed" in own.log()

    wait_until(is_short, what="a connection could not be accepted")
    for peer in peers:
        peer.close()
    # what it had given up for a moment it has again, before anything is counted
    leave_descriptors(own, 1000)
    assert own.call("version", [])[0]
    for spare in (1, 2, 3):
        leave_descriptors(own, spare)
        is_done, _ = json.loads(own.send("upload_file_single", upload(own, "new"))[1])
        before = "new" if is_done else before
        assert own.paths.config_data.read_text() == before

    leave_descriptors(own, 1000)
    assert own.call("jobqueue_update", [own.job_name(1), [0, "x"]]) == [True, None]


def leave_descriptors(node: Node, spare: int) -> None:
    """Let the daemon open so many more."""
    used = set(map(int, os.listdir(f"/proc/{node.pid}/fd")))
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (min(set(range(1000)) - used) + spare, hard))
