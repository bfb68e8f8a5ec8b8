"""`gnt-debug locks`, and what a waiting job is told to wait for. Source: cli.md 4; STYLE section 8."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.lockview import read_lock_view
from common.access import Role
from common.errors import ProtocolError
from common.paths import Paths
from protocol.server import Peer, Route
from protocol.wconfd import ListLocksWaitingStatus
from tests.cli.command import Ended, run
from tests.cli.fakeluxid import serving

A = [27491, "/run/a", 11]
B = [27502, "/run/b"]
C = ["gnt-x", "/run/c"]
SNAPSHOT = [
    [["node/[lockset]", []], ["node/n1", [[A, "shared"], [C, "shared"]]], ["node/n2", [[A, "exclusive"]]]],
    [[0, B, [["node/n1", "exclusive"], ["node/n3", "shared"], ["network/x", "release"]]]],
]


@contextmanager
def fake_wconfd(root: Path, answer: Any) -> Iterator[None]:
    paths = Paths.under_root(root)
    paths.make_folders()

    async def tell(_: Any, __: Peer) -> Any:
        return answer

    with serving(paths.wconfd_socket, [Route(ListLocksWaitingStatus, tell, role=Role.READ)]):
        yield


def test_the_table_has_who_holds_and_who_waits_in_lock_order(tmp_path: Path) -> None:
    with fake_wconfd(tmp_path, SNAPSHOT):
        ended = run("gnt-debug", "--root", tmp_path, "locks")

    assert ended == Ended(
        0,
        "NAME     MODE       OWNER            PENDING\n"
        "node/n1  shared     job/27491,gnt-x  exclusive:job/27502\n"
        "node/n2  exclusive  job/27491        -\n"
        "node/n3  -          -                shared:job/27502\n",
        "",
    )


def test_json_is_the_answer_of_the_wire(tmp_path: Path) -> None:
    with fake_wconfd(tmp_path, SNAPSHOT):
        ended = run("gnt-debug", "--root", tmp_path, "locks", "--output", "json")

    assert json.loads(ended.out) == SNAPSHOT


def test_a_free_table_is_a_header_alone(tmp_path: Path) -> None:
    with fake_wconfd(tmp_path, [[], []]):
        ended = run("gnt-debug", "--root", tmp_path, "locks")

    assert ended == Ended(0, "NAME  MODE  OWNER  PENDING\n", "")


def test_a_wconfd_that_does_not_run_is_3(tmp_path: Path) -> None:
    ended = run("gnt-debug", "--root", tmp_path, "locks")

    assert ended == Ended(3, "", f"error: wconfd is not running; start it with: gantry --root {tmp_path} up\n")


def test_a_pending_owner_waits_for_those_whose_mode_is_in_its_way() -> None:
    view = read_lock_view(SNAPSHOT)

    waits = [(str(lock), mode.value, list(map(str, holders))) for lock, mode, holders in view.waits_for("job/27502")]

    # node/n3 is free, and is granted together with the rest
    assert waits == [("node/n1", "exclusive", ["job/27491", "gnt-x"])]


def test_a_member_waits_for_the_holder_of_its_group_and_a_group_for_those_of_its_members() -> None:
    by_group = read_lock_view([[["node/[lockset]", [[A, "shared"]]]], [[0, B, [["node/n1", "exclusive"]]]]])
    by_member = read_lock_view([[["node/n1", [[A, "exclusive"]]]], [[0, B, [["node/[lockset]", "shared"]]]]])
    unrelated = read_lock_view([[["node/n2", [[A, "exclusive"]]]], [[0, B, [["node/n1", "shared"]]]]])

    assert [str(holder) for _, _, [holder] in by_group.waits_for("job/27502")] == ["job/27491"]
    assert [str(holder) for _, _, [holder] in by_member.waits_for("job/27502")] == ["job/27491"]
    assert unrelated.waits_for("job/27502") == []


def test_an_answer_of_another_form_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown form"):
        read_lock_view([["node/n1"]])
