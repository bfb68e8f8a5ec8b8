"""The epoch of a master only goes up, and what an old master sends is refused (DESIGN 12 and 14)."""

import json
import threading

import pytest

from common.ids import JobId
from tests.support.machines.nodes import Node


def test_a_lower_epoch_is_refused_with_nothing_written_also_after_a_crash(own: Node) -> None:
    call = [own.job_name(1), [0, "new"]]
    assert own.call("jobqueue_update", call, epoch=7) == [True, None]
    assert own.paths.epoch_file.read_text() == "7\n"
    own.kill()
    own.start()

    is_done, text = own.call("jobqueue_update", [own.job_name(1), [0, "old"]], epoch=6)

    assert not is_done
    assert "the caller's epoch is 6, and this node has seen 7" in text
    assert own.paths.job_file(JobId(1)).read_text() == "new"
    assert own.call("jobqueue_update", [own.job_name(1), [0, "same"]], epoch=7) == [True, None]
    assert own.call("version", [], epoch=5)[0] is False


def test_calls_of_ganeti_bear_no_epoch_and_are_carried_out(node: Node) -> None:
    node.call("version", [], epoch=3)

    assert node.call("jobqueue_update", [node.job_name(2), [0, "x"]]) == [True, None]


def test_what_is_no_epoch_is_refused_and_raises_nothing(node: Node) -> None:
    before = node.paths.epoch_file.read_bytes() if node.paths.epoch_file.exists() else b""

    for epoch in ("", "-1", "1e3", str(2**63), "9" * 30, "x"):
        is_done, text = node.call("version", [], epoch=epoch)
        assert not is_done
        assert "an epoch is a whole number" in text
    assert (node.paths.epoch_file.read_bytes() if node.paths.epoch_file.exists() else b"") == before


def test_an_epoch_that_cannot_be_stored_is_not_used(own: Node) -> None:
    own.paths.epoch_file.mkdir()

    assert own.call("jobqueue_update", [own.job_name(3), [0, "x"]], epoch=9)[0] is False
    assert not own.paths.job_file(JobId(3)).exists()
    own.paths.epoch_file.rmdir()
    assert own.call("jobqueue_update", [own.job_name(3), [0, "x"]], epoch=8) == [True, None]


def test_a_damaged_epoch_stops_the_start_with_what_to_do(idle: Node) -> None:
    idle.paths.epoch_file.write_text("seven\n")

    with pytest.raises(AssertionError, match="write the highest epoch that any node has into it"):
        idle.start()


def test_masters_who_race_leave_the_highest_epoch(own: Node) -> None:
    results: dict[int, bool] = {}

    def take_over(epoch: int) -> None:
        body = json.dumps([own.job_name(epoch), [0, str(epoch)]]).encode()
        results[epoch] = json.loads(own.send("jobqueue_update", body, epoch=epoch)[1])[0]

    threads = [threading.Thread(target=take_over, args=(epoch,)) for epoch in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert own.paths.epoch_file.read_text() == "8\n"
    assert results[8] is True
    assert [own.paths.job_file(JobId(epoch)).exists() for epoch in results] == list(results.values())
