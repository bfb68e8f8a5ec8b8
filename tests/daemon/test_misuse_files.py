"""Damaged files: a job that cannot be read is set aside, the state of the cluster is never replaced by nothing.

Source: DESIGN sections 6 and 8; luxid.md 5.10.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from daemons.luxid.files.knownids import GAP
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import TryUpdateLocks
from tests.support.checked import checked_cluster
from tests.support.cluster import ALL, Cluster
from tests.support.stamps import Stamps


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    with checked_cluster(tmp_path / "root") as cluster:
        yield cluster


@pytest.fixture
def stamps(tmp_path: Path) -> Stamps:
    return Stamps(tmp_path / "stamps")


Damage = Callable[[Path], None]


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_foreign(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)))


def make_other_json(path: Path) -> None:
    path.write_bytes(b'{"id": "a job?", "ops": 17}')


def give_unknown_status(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"status":"', b'"status":"un'))


def give_other_id(path: Path) -> None:
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"id": 4711}))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def nest_deeply(path: Path) -> None:
    path.write_bytes(b"[" * 100_000 + b"]" * 100_000)


DAMAGES: tuple[Damage, ...] = (
    halve,
    empty,
    make_foreign,
    make_other_json,
    give_unknown_status,
    give_other_id,
    make_folder,
    nest_deeply,
)


def test_damaged_job_files_are_set_aside_and_the_others_are_served(idle: Cluster, stamps: Stamps) -> None:
    idle.start("wconfd", "luxid")
    first, *damaged = idle.submit_many(*[(stamps.work(),)] * (1 + len(DAMAGES)))
    idle.kill("luxid")
    for job_id, damage in zip(damaged, DAMAGES, strict=True):
        damage(idle.paths.job_file(job_id))
    kept = {job_id: content_of(idle.paths.job_file(job_id)) for job_id in damaged}
    # nothing but the damaged files knows their ids any more
    idle.paths.serial_file.write_text("1\n")

    idle.start("forkserver", "luxid")

    lines = [line for line in idle.log("luxid").splitlines() if "job.damaged" in line]
    assert len(lines) == len(damaged)
    for job_id, line in zip(damaged, lines, strict=True):
        assert f" job={job_id} " in line
        assert str(idle.paths.damaged) in line
        assert not idle.paths.job_file(job_id).exists()
        assert content_of(idle.paths.damaged / f"job-{job_id}") == kept[job_id]
    assert idle.wait(first) == ["success"]
    assert idle.luxi(QueryJobs(None, ("id",))) == ((first,),)
    new = idle.submit(stamps.work())
    assert new == max(damaged) + GAP + 1
    # the damage is not the end of the matter for later starts either
    idle.restart("luxid")
    assert idle.wait(new) == ["success"]
    assert idle.submit(stamps.work()) == new + 1


def content_of(path: Path) -> bytes | None:
    """None: a folder."""
    return path.read_bytes() if path.is_file() else None


def test_a_job_whose_prerequisite_was_damaged_fails_and_names_it(idle: Cluster, stamps: Stamps) -> None:
    idle.start("wconfd", "luxid")
    first, second = idle.submit_many((stamps.work(),), (stamps.work(depends=[[-1, ["success"]]]),))
    idle.kill("luxid")
    halve(idle.paths.job_file(first))

    idle.start("forkserver", "luxid")

    assert idle.wait(second) == ["error"]
    assert str(first) in str(idle.job(second, "opresult"))
    assert stamps.lines() == []


def test_foreign_files_in_the_queue_folder_are_left_alone(idle: Cluster, stamps: Stamps) -> None:
    names = ["job-1.bak", "job-", "job-x", "notes.txt", "job-01x", "job-٣"]
    for name in names:
        (idle.paths.queue / name).write_text("mine")

    idle.start("wconfd", "forkserver", "luxid")

    assert idle.wait(idle.submit(stamps.work())) == ["success"]
    assert [(idle.paths.queue / name).read_text() for name in names] == ["mine"] * len(names)


def test_a_second_file_of_one_id_is_never_taken_for_the_job(idle: Cluster, stamps: Stamps) -> None:
    idle.start("wconfd", "luxid")
    job_id = idle.submit(stamps.work())
    idle.kill("luxid")
    path = idle.paths.job_file(job_id)
    (idle.paths.queue / f"job-00{job_id}").write_bytes(path.read_bytes())

    idle.start("forkserver", "luxid")

    assert idle.luxi(QueryJobs(None, ("id",))) == ((job_id,),)
    assert idle.wait(job_id) == ["success"]
    stamps.assert_nothing_ran_twice()


@pytest.mark.parametrize("text", ["seven", "", "-3"])
def test_a_serial_that_is_no_number_stops_luxid_and_is_kept(idle: Cluster, text: str) -> None:
    idle.paths.serial_file.write_text(text)

    with pytest.raises(AssertionError, match=r"luxid ended with 1: luxid: error: .*serial.*highest job id"):
        idle.start("luxid")

    assert idle.paths.serial_file.read_text() == text


@pytest.mark.parametrize("damage", [halve, empty])
@pytest.mark.parametrize("name", ["locks.data", "config.data"])
def test_damaged_state_stops_wconfd_names_the_file_and_keeps_it(idle: Cluster, name: str, damage: Damage) -> None:
    idle.start("wconfd")
    livelock = Livelock.create(idle.paths.livelocks, "test")
    lock = LockRequest(parse_lock("node/n1"), LockMode.SHARED)
    idle.wconf(TryUpdateLocks(Owner("test", livelock.path), (lock,)))
    idle.kill("wconfd")
    path = idle.paths.data / name
    damage(path)
    damaged = path.read_bytes()

    with pytest.raises(AssertionError, match=rf"wconfd ended with 1: wconfd: error: .*{name}"):
        idle.start("wconfd")

    assert path.read_bytes() == damaged
    livelock.remove()


def test_two_daemons_of_a_kind_do_not_run_in_one_installation(idle: Cluster) -> None:
    idle.start()
    running = dict(idle.daemons)

    for name in ALL:
        with pytest.raises(AssertionError, match=f"{name} ended with 1: .*{name}: error: "):
            idle.start(name)

    assert {name: daemon.poll() for name, daemon in running.items()} == dict.fromkeys(running)
    assert idle.daemons == running
    assert os.path.exists(idle.paths.query_socket)
    idle.luxi(QueryJobs(None, ("id",)))
