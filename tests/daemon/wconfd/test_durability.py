"""No reply before the disk, and nothing that was answered is lost by a crash (DESIGN section 3, invariant 3)."""

import json
import signal
import threading
from collections.abc import Callable

from daemons.wconfd.locks.lockfiles import journal_of
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.daemon.wconfd.workers import Worker, holders
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.wait import PATIENCE_S, wait_until

Job = Callable[[int], WireOwner]
Connect = Callable[..., Wire]


def test_the_file_says_it_when_the_answer_comes(cluster: Cluster, connect: Connect, job: Job) -> None:
    owners = [job(number) for number in range(8)]
    behind: list[str] = []

    def toggle(call: Wire, owner: WireOwner) -> None:
        for turn in range(30):
            mode = "release" if turn % 2 else "exclusive"
            call("tryUpdateLocks", owner, [[f"node/{owner[0]}", mode]])
            if (owner[1] in holders(cluster.paths.locks_data)) is not (mode == "exclusive"):
                behind.append(f"{owner} {mode} {turn}")

    threads = [threading.Thread(target=toggle, args=(connect(), owner)) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert behind == []


def wait_for_work(workers: list[Worker], calls: int) -> None:
    """Wait until so many more calls are answered."""
    goal = sum(worker.acknowledged for worker in workers) + calls
    wait_until(lambda: sum(worker.acknowledged for worker in workers) >= goal, what="some work is done")


def test_kill_9_loses_no_answered_grant_and_brings_nothing_back(cluster: Cluster, job: Job) -> None:
    socket = cluster.paths.wconfd_socket
    workers = [Worker(socket, job(number), f"node/own{number}", wait=False) for number in range(4)]
    workers += [Worker(socket, job(number), "node/shared", wait=True) for number in range(4, 8)]
    for worker in workers:
        worker.start()

    for kill in range(6):
        # other moments of the writer in each round
        wait_for_work(workers, 97 + 41 * kill)
        cluster.kill("wconfd")
        for worker in workers:
            assert worker.is_cut_off.wait(PATIENCE_S)
        on_disk = holders(cluster.paths.locks_data)
        for worker in workers:
            assert (worker.lock in on_disk.get(worker.owner[1], ())) in worker.possible, (kill, worker.owner, on_disk)
        assert sum("node/shared" in locks for locks in on_disk.values()) <= 1

        cluster.start("wconfd")
        assert holders(cluster.paths.locks_data).items() >= on_disk.items()
        for worker in workers:
            worker.reconnect()

    for worker in workers:
        worker.finish()
    assert holders(cluster.paths.locks_data) == {}


def test_kill_9_while_the_journal_is_begun_anew_over_and_over(cluster: Cluster, job: Job) -> None:
    # some kilobytes a line: the journal reaches its bound a few times between two kills
    workers = [
        Worker(cluster.paths.wconfd_socket, job(number), f"node/own{number}", wait=False, more=1000)
        for number in range(4)
    ]
    path, files = cluster.paths.locks_data, set()
    for worker in workers:
        worker.start()

    for kill in range(5):
        wait_for_work(workers, 53 + 31 * kill)
        cluster.kill("wconfd")
        for worker in workers:
            assert worker.is_cut_off.wait(PATIENCE_S)
        # the number of a file that is gone is given to the next
        files.add((path.stat().st_ino, path.stat().st_mtime_ns))
        on_disk = holders(path)
        for worker in workers:
            held = on_disk.get(worker.owner[1], set())
            assert held in ({worker.lock, *worker.others}, set()), (kill, worker.owner, len(held))
            assert bool(held) in worker.possible, (kill, worker.owner)
        cluster.start("wconfd")
        assert holders(path).items() >= on_disk.items()
        for worker in workers:
            worker.reconnect()

    for worker in workers:
        worker.finish()
    assert holders(path) == {}
    assert len(files) > 2


def test_at_rest_and_after_a_stop_the_file_alone_is_the_whole_truth(
    cluster: Cluster, connect: Connect, job: Job
) -> None:
    path, journal = cluster.paths.locks_data, journal_of(cluster.paths.locks_data)
    call = connect()
    call("tryUpdateLocks", job(1), [["node/n", "shared"]])

    wait_until(lambda: list(json.loads(path.read_bytes())[0]) == [[job(1), [["node/n", "shared"]]]], what="it is whole")
    # the header, once the new journal is in its place as well
    wait_until(lambda: journal.read_bytes().count(b"\n") == 1, what="it has an empty journal")
    call("tryUpdateLocks", job(2), [["node/n", "shared"]])
    both = durable_locks(path)
    cluster.kill("wconfd", signal.SIGTERM)

    assert path.read_bytes() == both
    assert not journal.exists()


def test_the_file_alone_names_who_holds_also_while_others_change_it_all_the_time(
    cluster: Cluster, connect: Connect, job: Job
) -> None:
    path = cluster.paths.locks_data
    # they come together, so that writes are shared and there is no moment of quiet
    workers = [
        Worker(cluster.paths.wconfd_socket, job(number), f"node/w{number}", wait=False) for number in range(3, 7)
    ]
    for worker in workers:
        worker.start()
    wait_for_work(workers, 20)
    connect()("tryUpdateLocks", job(1), [["node/n", "shared"]])

    wait_until(lambda: [job(1), [["node/n", "shared"]]] in json.loads(path.read_bytes())[0], what="it names the holder")

    for worker in workers:
        worker.finish()


def test_a_stop_in_the_middle_of_work_loses_nothing_either(cluster: Cluster, job: Job) -> None:
    workers = [Worker(cluster.paths.wconfd_socket, job(number), "node/shared", wait=True) for number in range(4)]
    for worker in workers:
        worker.start()
    wait_for_work(workers, 50)

    cluster.kill("wconfd", signal.SIGTERM)

    for worker in workers:
        assert worker.is_cut_off.wait(PATIENCE_S)
    on_disk = holders(cluster.paths.locks_data)
    for worker in workers:
        assert ("node/shared" in on_disk.get(worker.owner[1], ())) in worker.possible
    assert not cluster.paths.wconfd_socket.exists()
    cluster.start("wconfd")
    for worker in workers:
        worker.reconnect()
    for worker in workers:
        worker.finish()
