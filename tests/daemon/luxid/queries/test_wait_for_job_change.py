"""WaitForJobChange, exactly (luxid.md 8)."""

import socket
import subprocess
import sys
import threading
from typing import Any

import orjson
import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.blocking import BlockingClient
from protocol.framing import ETX
from protocol.luxi.jobs import ArchiveJob, CancelJob
from protocol.luxi.queries import JobSnapshot, WaitForJobChange
from tests.daemon.luxid.ops import after, delay, dummy, gated
from tests.support.cluster import Cluster
from tests.support.sockets.connections import connection_count
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until


def wait(
    cluster: Cluster, job_id: int, fields: list[str], previous: object, serial: object, timeout: float
) -> list[Any]:
    reply = cluster.luxi_wire(WaitForJobChange(JobId(job_id), tuple(fields), previous, serial, timeout))
    return list(reply)


def connections(cluster: Cluster) -> int:
    return connection_count(cluster.daemons["luxid"].pid, cluster.paths.query_socket)


def test_unknown_previous_values_are_answered_at_once(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")

    assert wait(cluster, job_id, ["id", "status"], None, None, 60) == [[job_id, "running"], []]


def test_a_change_ends_the_wait(cluster: Cluster) -> None:
    go = cluster.root / "go"
    job_id = cluster.submit(gated(go))
    cluster.wait(job_id, status="running")
    with BlockingClient(cluster.paths.query_socket) as client:
        request = WaitForJobChange(job_id, ("status",), ["running"], None, 60.0)
        client.start(request)
        go.touch()

        assert client.finish(request) == JobSnapshot(("success",), ())


def test_a_final_job_is_answered_at_once_whatever_is_known(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy())
    cluster.wait(job_id)

    assert wait(cluster, job_id, ["status"], ["success"], None, 60) == [["success"], []]


def test_at_the_time_out_the_values_come_as_they_are(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")

    assert wait(cluster, job_id, ["status"], ["running"], None, 0.1) == [["running"], []]
    assert wait(cluster, job_id, ["status"], ["running"], None, -5) == [["running"], []]


def test_new_log_entries_end_the_wait_and_only_new_ones_come(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(messages=["one", "two"]))
    cluster.wait(job_id)

    _, entries = wait(cluster, job_id, ["status"], None, None, 0)
    assert [(entry[0], entry[2], entry[3]) for entry in entries] == [(1, "message", "one"), (2, "message", "two")]
    assert [entry[0] for entry in wait(cluster, job_id, ["id"], None, 1, 0)[1]] == [2]


@pytest.mark.parametrize(("fields", "count"), [(["status"], 1), (["id"], 0)])
def test_a_serial_that_is_no_number_means_all_or_none(cluster: Cluster, fields: list[str], count: int) -> None:
    job_id = cluster.submit(dummy(messages="one"))
    cluster.wait(job_id)

    assert len(wait(cluster, job_id, fields, None, "x", 0)[1]) == count


def test_an_unknown_field_makes_all_values_null(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))

    assert wait(cluster, job_id, ["id", "colour"], None, None, 10) == [[None, None], []]


def test_values_that_are_lists_are_compared_by_what_they_hold(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")
    fields = ["ops", "opstart", "received_ts"]

    values, _ = wait(cluster, job_id, fields, None, None, 10)

    assert wait(cluster, job_id, fields, values, None, 0.1) == [values, []]


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_job_that_is_not_live_is_lost(cluster: Cluster, is_archived: bool) -> None:
    job_id = cluster.submit(dummy())
    cluster.wait(job_id)
    if is_archived:
        assert cluster.luxi(ArchiveJob(job_id))

    with pytest.raises(RemoteError) as caught:
        wait(cluster, job_id if is_archived else 77, ["status"], None, None, 10)

    assert caught.value.wire_name == "JobLost"


def test_a_wait_sees_a_job_become_free_of_its_dependencies(cluster: Cluster) -> None:
    first, second = cluster.submit_many((delay(60),), (delay(60, depends=after(-1, wanted=("canceled", "error"))),))
    cluster.wait(first, status="running")
    assert wait(cluster, second, ["status"], ["queued"], None, 10) == [["waiting"], []]

    cluster.luxi(CancelJob(first, kill=True))

    assert wait(cluster, second, ["status"], ["waiting"], None, 60)[0][0] in ("queued", "running")


def test_many_waiters_of_one_job_are_all_woken(cluster: Cluster) -> None:
    go = cluster.root / "go"
    job_id = cluster.submit(gated(go))
    cluster.wait(job_id, status="running")
    answers: list[object] = []

    def one() -> None:
        with BlockingClient(cluster.paths.query_socket) as client:
            answers.append(client.call(WaitForJobChange(job_id, ("status",), ["running"], None, 60.0)).values)

    threads = [threading.Thread(target=one) for _ in range(30)]
    before = connections(cluster)
    for thread in threads:
        thread.start()
    wait_until(lambda: connections(cluster) == before + 30, what="they are all connected")
    go.touch()
    for thread in threads:
        thread.join()

    assert answers == [("success",)] * 30


def test_clients_that_went_away_are_forgotten_at_once(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(600))
    cluster.wait(job_id, status="running")
    before = connections(cluster)
    clients = [BlockingClient(cluster.paths.query_socket) for _ in range(50)]
    for client in clients:
        client.start(WaitForJobChange(job_id, ("status",), ["running"], None, 89.0))
    wait_until(lambda: connections(cluster) == before + 50, what="they are all connected")

    for client in clients:
        client.close()

    wait_until(lambda: connections(cluster) == before, what="their connections are closed")


@pytest.mark.parametrize("method", ["WaitForJobChange", "ReadJobOutput"])
def test_a_waiter_that_is_killed_is_forgotten_at_once(cluster: Cluster, method: str) -> None:
    job_id = cluster.submit(delay(600))
    cluster.wait(job_id, status="running")
    before = connections(cluster)
    args = [job_id, ["status"], ["running"], None, 89.0] if method == "WaitForJobChange" else [job_id, 0, 89.0]
    script = (
        "import socket, sys; sock = socket.socket(socket.AF_UNIX); sock.connect(sys.argv[1]); "
        "sock.sendall(sys.argv[2].encode() + bytes([3])); sock.recv(1)"
    )
    message = orjson.dumps({"method": method, "args": args})
    waiter = subprocess.Popen([sys.executable, "-c", script, cluster.paths.query_socket, message])
    wait_until(lambda: connections(cluster) == before + 1, what="it is connected")

    waiter.kill()
    waiter.wait()

    wait_until(lambda: connections(cluster) == before, what="its connection is closed")


def test_a_waiter_that_only_ended_what_it_says_gets_its_answer(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")
    with RawCaller(cluster.paths.query_socket) as caller:
        message = {"method": "WaitForJobChange", "args": [job_id, ["status"], ["running"], None, 60]}
        caller.send(orjson.dumps(message) + ETX)
        caller.sock.shutdown(socket.SHUT_WR)

        cluster.luxi(CancelJob(job_id, kill=True))

        assert orjson.loads(caller.receive() or b"")["result"][0] in (["canceling"], ["canceled"])
        assert caller.receive() is None
