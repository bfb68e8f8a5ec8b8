"""A node loses only what the master has removed; what the master has lost is set aside there, and told (DESIGN 11)."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.queue.terms import Hold, JobTerms, terms_entry
from daemons.luxid.files.knownids import GAP
from protocol.luxi.daemon import ReadHealth
from protocol.luxi.history import Prune, ReadHistory
from protocol.luxi.jobs import AutoArchiveJobs, SubmitJob
from tests.cli.command import Ended, run
from tests.daemon.luxid.ops import command, dummy
from tests.support.fakes.luxidoffewfiles import FEW
from tests.support.machines.fleet import Fleet, FleetNode, queue_files, state_files
from tests.support.wait import wait_until

RULES = "[retention]\nkeep_jobs = 1\nkeep_per_name = 1\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A master and two candidates, whose queues are equal; the master keeps one ended job."""
    with Fleet(tmp_path, 2) as fleet:
        settings = fleet.master.root / "gantry.toml"
        settings.write_text(settings.read_text() + RULES)
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        fleet.until_same_queue(*fleet.nodes)
        yield fleet


def _held_op() -> Any:
    return dummy(reason=[terms_entry(JobTerms(hold=Hold()), 0).to_wire()])


def _held(fleet: Fleet) -> JobId:
    return fleet.master.submit(_held_op())


def _label(fleet: Fleet, job: JobId, label: str) -> None:
    changed = run("gnt-job", "--root", fleet.master.root, "modify", str(job), "--label", label)
    assert changed.code == 0, changed.err


def _repair(fleet: Fleet, *words: str) -> Ended:
    return run("gantry", "--root", fleet.master.root, "repair", "--output", "json", *words)


def _verify(fleet: Fleet) -> Ended:
    return run("gnt-cluster", "--root", fleet.master.root, "verify")


def _aside(node: FleetNode) -> Sequence[str]:
    """What a node has set aside, by the names that it had; but notes of batches, which no repair brings back."""
    found = (path for path in node.paths.set_aside.rglob("*") if path.is_file() and not path.name.startswith("batch-"))
    return sorted("/".join(path.relative_to(node.paths.set_aside).parts[1:]) for path in found)


def _until_aside(*nodes: FleetNode, names: Sequence[str]) -> None:
    for node in nodes:
        wait_until(
            lambda at=node: _aside(at) == sorted(names),  # type: ignore[misc]
            what=f"{node.name} has set files aside",
            state=lambda at=node: _aside(at),  # type: ignore[misc]
        )


def test_jobs_that_the_master_has_lost_are_kept_by_all_candidates_and_told(fleet: Fleet) -> None:
    jobs = [_held(fleet) for _ in range(3)]
    names = [f"queue/job-{job}" for job in jobs]
    fleet.until_same_queue(*fleet.nodes)
    kept = fleet.nodes[0].paths.job_file(jobs[0]).read_bytes()
    fleet.master.kill("luxid")
    for job in jobs:
        fleet.master.paths.job_file(job).unlink()

    fleet.master.start("luxid")

    _until_aside(*fleet.nodes, names=names)
    (copy,) = fleet.nodes[0].paths.set_aside.glob(f"*/queue/job-{jobs[0]}")
    assert copy.read_bytes() == kept
    verified = _verify(fleet)
    assert verified.code == 1
    for node in fleet.nodes:
        assert f"node '{node.name}' has set aside 3 files that the master has lost: {', '.join(names)}" in verified.out
    assert fleet.master.luxi(ReadHealth()).lost_files == 3
    assert "copies.beyond node=node2.test files=3" in fleet.master.log("luxid")


def test_repair_tells_and_brings_them_back_on_hold(fleet: Fleet) -> None:
    jobs = [_held(fleet) for _ in range(3)]
    fleet.until_same_queue(*fleet.nodes)
    kept = fleet.nodes[0].paths.job_file(jobs[0]).read_bytes()
    fleet.master.kill("luxid")
    for job in jobs:
        fleet.master.paths.job_file(job).unlink()
    fleet.master.start("luxid")
    _until_aside(*fleet.nodes, names=[f"queue/job-{job}" for job in jobs])

    asked = run("gantry", "--root", fleet.master.root, "repair")
    assert asked.code == 1
    for job in jobs:
        assert f"job {job}  node2.test, node3.test  -         held" in asked.out, asked.out
    assert not fleet.master.paths.job_file(jobs[0]).exists()
    fetched = run("gantry", "--root", fleet.master.root, "repair", "--fetch")
    assert (fetched.code, fetched.out.count("fetched")) == (0, 3), fetched.out
    assert [fleet.master.status(job) for job in jobs] == ["queued"] * 3
    assert fleet.master.paths.job_file(jobs[0]).read_bytes() == kept
    fleet.until_same_queue(*fleet.nodes)
    assert _verify(fleet).code == 0
    assert json.loads(_repair(fleet).out) == {"lost": [], "unasked": {}}
    run("gnt-job", "--root", fleet.master.root, "release", str(jobs[0]))
    fleet.master.wait(jobs[0])
    assert fleet.master.status(jobs[1]) == "queued"


def test_a_node_that_was_away_while_jobs_were_removed_loses_exactly_those(fleet: Fleet) -> None:
    away, _ = fleet.nodes
    master = fleet.master
    gone = master.submit_many(*[(dummy(),)] * 3)
    master.wait(*gone)
    lost, kept = master.submit(dummy()), master.submit(dummy())
    master.wait(lost, kept)
    fleet.until_same_queue(*fleet.nodes)
    away.kill()
    master.luxi(AutoArchiveJobs(-1, 60))
    wait_until(lambda: not master.luxi(ReadHistory()).unread, what="the history is complete")
    # the record says so, whatever luxid is there when the node comes back
    last = master.submit(dummy())
    master.wait(last)
    # one is lost before it can be removed
    fleet.master.kill("luxid")
    master.paths.archived_job_file(lost).unlink()
    fleet.master.start("luxid")
    wait_until(lambda: not master.luxi(ReadHistory()).unread, what="the history is complete")
    assert master.luxi(Prune()).jobs == 4
    fleet.master.restart("luxid")

    away.start()

    _until_aside(away, names=[f"queue/job-{lost}"])
    fleet.until_same_queue(away)
    assert not any(away.paths.job_file(job).exists() for job in (*gone, kept))


def test_a_lost_archive_is_set_aside_as_it_lay(fleet: Fleet) -> None:
    master = fleet.master
    jobs = master.submit_many((dummy(),), (dummy(),))
    master.wait(*jobs)
    master.luxi(AutoArchiveJobs(-1, 60))
    fleet.until_same_queue(*fleet.nodes)
    fleet.master.kill("luxid")
    shutil.rmtree(master.paths.archive / "0")

    fleet.master.start("luxid")

    _until_aside(*fleet.nodes, names=[f"queue/archive/0/job-{job}" for job in jobs])
    (first, _) = rows = json.loads(_repair(fleet, "--fetch").out)["lost"]
    assert [(row["job"], row["becomes"], row["is_done"]) for row in rows] == [(job, "success", True) for job in jobs]
    assert first["file"] == f"queue/archive/0/job-{jobs[0]}"
    assert master.paths.archived_job_file(jobs[0]).exists()
    fleet.until_same_queue(*fleet.nodes)


def test_a_lost_key_is_set_aside_and_an_outdated_one_goes(fleet: Fleet) -> None:
    master = fleet.master
    job = master.luxi(SubmitJob((dummy(),), "once"))
    master.wait(job)
    fleet.until_same_state(*fleet.nodes)
    (key,) = master.paths.submissions.iterdir()
    fleet.master.kill("luxid")
    content = key.read_text()
    key.unlink()
    for node in fleet.nodes:
        old = content.replace('"received_at":[1', '"received_at":[')
        assert old != content
        (node.paths.submissions / ("a" * 40)).write_text(old)

    fleet.master.start("luxid")

    _until_aside(*fleet.nodes, names=[f"submissions/{key.name}"])
    fleet.until_same_state(*fleet.nodes)
    assert _repair(fleet, "--fetch").code == 0
    assert key.read_text() == content
    assert master.luxi(SubmitJob((dummy(),), "once")) == job


@pytest.mark.parametrize("is_known", [True, False], ids=["the master knows that it ran", "nothing shows it"])
def test_a_job_that_has_run_and_whose_copy_says_queued_does_not_run_again(
    fleet: Fleet, tmp_path: Path, is_known: bool
) -> None:
    master, mark = fleet.master, tmp_path / "mark"
    held = terms_entry(JobTerms(hold=Hold()), 0).to_wire()
    job = master.submit(command("sh", "-c", f"echo once | tee -a {mark}", reason=[held]))
    fleet.until_same_queue(*fleet.nodes)
    for node in fleet.nodes:
        node.kill()
    assert run("gnt-job", "--root", master.root, "release", str(job)).code == 0
    master.wait(job)
    if is_known:
        wait_until(lambda: not master.luxi(ReadHistory()).unread, what="the history is complete")
    master.kill("luxid")
    master.paths.job_file(job).unlink()
    if not is_known:
        for path in (*master.paths.output.iterdir(), *master.paths.waits.iterdir(), master.paths.history):
            path.unlink()
    for node in fleet.nodes:
        node.start()

    master.start("luxid")

    _until_aside(*fleet.nodes, names=[f"queue/job-{job}"])
    row = json.loads(_repair(fleet, "--fetch").out)["lost"][0]
    assert (row["job"], row["is_done"]) == (job, True), row
    if is_known:
        assert (row["becomes"], master.status(job)) == ("error", "error")
        assert "it had started: " in row["why"]
        assert "its output" in row["why"]
    else:
        assert (row["becomes"], master.status(job)) == ("held", "queued")
    master.restart("luxid")
    last = master.submit(dummy())
    master.wait(last)
    assert master.status(job) == ("error" if is_known else "queued")
    assert mark.read_text() == "once\n"


def test_a_job_that_nobody_has_is_told_until_it_is_forgotten(fleet: Fleet) -> None:
    master = fleet.master
    job, kept = master.submit(command("echo", "hello")), _held(fleet)
    master.wait(job)
    fleet.until_same_queue(*fleet.nodes)
    master.kill("luxid")
    for paths in (master.paths, *(node.paths for node in fleet.nodes)):
        paths.job_file(job).unlink()
    master.start("luxid")

    (row,) = json.loads(_repair(fleet, "--fetch").out)["lost"]

    assert (row["job"], row["nodes"], row["is_done"]) == (job, [], False)
    assert "output" in row["known_by"]
    refused = run("gantry", "--root", master.root, "repair", "--forget", str(kept))
    assert (refused.code, "is not lost" in refused.err) == (1, True)
    assert _repair(fleet, "--forget", str(job)).code == 0


def test_candidates_lose_what_is_forgotten(fleet: Fleet) -> None:
    job = _held(fleet)
    fleet.until_same_queue(*fleet.nodes)
    fleet.master.kill("luxid")
    fleet.master.paths.job_file(job).unlink()
    fleet.master.start("luxid")
    _until_aside(*fleet.nodes, names=[f"queue/job-{job}"])

    assert _repair(fleet, "--forget", str(job)).code == 0

    assert _verify(fleet).code == 0
    assert json.loads(_repair(fleet).out)["lost"] == []


def test_half_of_a_backup_takes_nothing_from_the_candidates(fleet: Fleet, tmp_path: Path) -> None:
    """The older half of the queue is restored, after a loss of all of it."""
    master = fleet.master
    old = [_held(fleet) for _ in range(2)]
    fleet.until_same_queue(*fleet.nodes)
    shutil.copytree(master.paths.queue, tmp_path / "backup")
    new = [_held(fleet) for _ in range(2)]
    fleet.until_same_queue(*fleet.nodes)
    fleet.master.kill("luxid")
    shutil.rmtree(master.paths.queue)
    shutil.copytree(tmp_path / "backup", master.paths.queue)
    master.paths.job_file(old[1]).unlink()

    fleet.master.start("luxid")

    _until_aside(*fleet.nodes, names=[f"queue/job-{job}" for job in (old[1], *new)])
    assert all(node.paths.job_file(old[0]).exists() for node in fleet.nodes)


def test_a_job_that_vanishes_while_luxid_runs_is_not_removed_from_candidates(fleet: Fleet) -> None:
    """Its file is missing when its next copy is to be sent."""
    first, second = fleet.nodes
    job = _held(fleet)
    fleet.until_same_queue(first, second)
    path = fleet.master.paths.job_file(job)
    copies = [path.read_bytes()]
    first.freeze()
    # the first change may be on its way to the node when it stops; the second one waits behind it
    _label(fleet, job, "a=first")
    copies.append(path.read_bytes())
    _label(fleet, job, "a=second")
    path.unlink()

    first.thaw()

    _until_aside(first, names=[f"queue/job-{job}"])
    (aside,) = first.paths.set_aside.glob(f"*/queue/job-{job}")
    assert aside.read_bytes() in copies


def test_a_batch_of_which_a_backup_has_a_part_is_whole_on_the_candidates(fleet: Fleet) -> None:
    """The backup was made while the batch was being submitted; the submission came to its end afterwards."""
    master = fleet.master
    jobs = master.submit_many(*[(_held_op(),)] * 3)
    fleet.until_same_queue(*fleet.nodes)
    fleet.until_same_state(*fleet.nodes)
    master.kill("luxid")
    (master.paths.submissions / f"batch-{jobs[0]}-{len(jobs)}").write_text("[]")
    master.paths.job_file(jobs[-1]).unlink()

    master.start("luxid")

    assert "submission.cut_off" in master.log("luxid")
    _until_aside(*fleet.nodes, names=[f"queue/job-{job}" for job in jobs])
    assert _repair(fleet, "--fetch").code == 0
    assert [master.status(job) for job in jobs] == ["queued"] * 3


def test_more_than_a_reply_holds_is_told_and_fetched_to_the_last(fleet: Fleet) -> None:
    """Each job has a key, so a node has twice as many files as there are jobs."""
    master = fleet.master
    # three replies: one of jobs, one of both, one of keys; and the last file of each is not the first of the next
    jobs = [master.luxi(SubmitJob((_held_op(),), f"key {number}")) for number in range(FEW + FEW // 2)]
    fleet.until_same_queue(*fleet.nodes)
    fleet.until_same_state(*fleet.nodes)
    before = [queue_files(master.paths), state_files(master.paths)]
    master.kill("luxid")
    for path in (*master.paths.queue.glob("job-*"), *master.paths.submissions.iterdir()):
        path.unlink()
    master.modules = {"luxid": "tests.support.fakes.luxidoffewfiles"}
    master.start("luxid")
    wait_until(lambda: len(_aside(fleet.nodes[0])) == 2 * len(jobs), what="all is set aside")

    told = json.loads(_repair(fleet).out)
    fetched = _repair(fleet, "--fetch")

    assert len(told["lost"]) == 2 * len(jobs)
    assert [row["job"] for row in told["lost"][: len(jobs)]] == jobs
    rows = json.loads(fetched.out)["lost"]
    assert fetched.code == 0
    assert [row["file"] for row in rows] == [row["file"] for row in told["lost"]]
    assert all(row["is_done"] for row in rows)
    assert [queue_files(master.paths).keys(), state_files(master.paths)] == [before[0].keys(), before[1]]
    assert _repair(fleet).code == 0


def test_no_job_gets_the_id_of_one_that_is_fetched_from_beyond_the_serial(fleet: Fleet) -> None:
    """A candidate returns that has jobs which neither this node nor its serial knows."""
    master, node = fleet.master, fleet.nodes[0]
    job = _held(fleet)
    fleet.until_same_queue(*fleet.nodes)
    beyond = JobId(job + 3)
    content = master.paths.job_file(job).read_text()
    node.paths.job_file(beyond).write_text(content.replace(f'"id":{job},', f'"id":{beyond},'))
    _verify(fleet)
    _until_aside(node, names=[f"queue/job-{beyond}"])

    assert _repair(fleet, "--fetch").code == 0

    new = [master.submit(dummy()) for _ in range(4)]
    assert new == [beyond + GAP + each for each in range(1, 5)]
    assert master.status(beyond) == "queued"


def test_a_restored_backup_of_the_whole_folder_gives_no_id_twice(fleet: Fleet, tmp_path: Path) -> None:
    """Nothing in it tells that it is old; the candidates do, as they get no copies before they are asked."""
    master = fleet.master
    daemons = ("luxid", "forkserver", "wconfd", "noded")
    _held(fleet)
    fleet.until_same_queue(*fleet.nodes)
    shutil.copytree(master.paths.data, tmp_path / "backup", ignore=shutil.ignore_patterns("*.tmp", "lock"))
    new = [_held(fleet) for _ in range(3)]
    fleet.until_same_queue(*fleet.nodes)
    for name in daemons:
        master.kill(name)
    shutil.rmtree(master.paths.data)
    shutil.copytree(tmp_path / "backup", master.paths.data)
    master.modules = {"luxid": "tests.support.fakes.slowaskingluxid"}

    master.start(*reversed(daemons))

    assert master.submit(dummy()) == new[-1] + GAP + 1
    _until_aside(*fleet.nodes, names=[f"queue/job-{job}" for job in new])
    rows = json.loads(_repair(fleet, "--fetch").out)["lost"]
    assert [(row["job"], row["is_done"]) for row in rows] == [(job, True) for job in new]


def test_a_job_that_was_archived_after_the_backup_is_no_longer_missed_when_it_is_here(
    fleet: Fleet, tmp_path: Path
) -> None:
    master = fleet.master
    job = master.submit(dummy())
    master.wait(job)
    fleet.until_same_queue(*fleet.nodes)
    shutil.copytree(master.paths.queue, tmp_path / "backup", ignore=shutil.ignore_patterns("lock"))
    master.luxi(AutoArchiveJobs(-1, 60))
    fleet.until_same_queue(*fleet.nodes)
    master.kill("luxid")
    shutil.rmtree(master.paths.queue)
    shutil.copytree(tmp_path / "backup", master.paths.queue)

    master.start("luxid")

    _until_aside(*fleet.nodes, names=[f"queue/archive/0/job-{job}"])
    fleet.until_same_queue(*fleet.nodes)
    assert json.loads(_repair(fleet).out) == {"lost": [], "unasked": {}}
    verified = _verify(fleet)
    assert verified.code == 0, verified.out


def test_a_job_whose_file_is_damaged_is_had_from_a_candidate(fleet: Fleet) -> None:
    """As a check of the file system leaves it: the name is there, and the content is gone."""
    master = fleet.master
    job = _held(fleet)
    fleet.until_same_queue(*fleet.nodes)
    kept = master.paths.job_file(job).read_bytes()
    master.kill("luxid")
    master.paths.job_file(job).write_bytes(b"")
    master.start("luxid")
    assert (master.paths.damaged / f"job-{job}").exists()

    (told,) = json.loads(_repair(fleet).out)["lost"]
    assert (told["job"], told["nodes"], told["becomes"]) == (job, ["node2.test", "node3.test"], "held")
    assert all(node.paths.job_file(job).read_bytes() == kept for node in fleet.nodes), "they stay where they are"
    assert _repair(fleet, "--fetch").code == 0

    assert master.paths.job_file(job).read_bytes() == kept
    assert master.status(job) == "queued"
    assert json.loads(_repair(fleet).out)["lost"] == []


def test_a_live_job_whose_file_has_vanished_is_written_again(fleet: Fleet) -> None:
    """Without a candidate luxid alone has it, and the next one would not."""
    master = fleet.master
    for node in fleet.nodes:
        node.kill()
    job = _held(fleet)
    kept = master.paths.job_file(job).read_bytes()
    master.paths.job_file(job).unlink()

    (told,) = json.loads(_repair(fleet).out)["lost"]
    assert (told["job"], told["becomes"], told["why"]) == (job, "queued", "luxid has it in memory")
    assert not master.paths.job_file(job).exists()
    (fetched,) = json.loads(_repair(fleet, "--fetch").out)["lost"]

    assert fetched["is_done"]
    assert master.paths.job_file(job).read_bytes() == kept


def test_a_job_that_has_run_does_not_run_again_under_its_key(fleet: Fleet, tmp_path: Path) -> None:
    """Its file is lost, and its key is not; the history tells that it was no unused id."""
    master, mark = fleet.master, tmp_path / "mark"
    run_once = SubmitJob((command("sh", "-c", f"echo once >> {mark}"),), "key")
    job = master.luxi(run_once)
    master.wait(job)
    wait_until(lambda: not master.luxi(ReadHistory()).unread, what="the history is complete")
    master.kill("luxid")
    master.paths.job_file(job).unlink()

    master.start("luxid")

    assert master.luxi(run_once) == job
    assert mark.read_text() == "once\n"


def _on_all(fleet: Fleet, name: str, word: bytes) -> bool:
    paths = [node.paths.data / name for node in fleet.nodes]
    return all(path.exists() and word in path.read_bytes() for path in paths)


def test_schedules_and_resources_that_the_master_has_lost_come_back_paused(fleet: Fleet) -> None:
    master, gantry = fleet.master, ("gantry", "--root", fleet.master.root)
    run(*gantry, "schedule", "add", "nightly", "--cron", "0 2 * * *", "--", "true")
    run(*gantry, "resource", "set", "kits", "5")
    wait_until(lambda: _on_all(fleet, "schedules.data", b"nightly"), what="candidates have the schedule")
    wait_until(lambda: _on_all(fleet, "resources.data", b"kits"), what="candidates have the resource")
    master.kill("wconfd")
    master.paths.schedules_data.unlink()
    master.paths.resources_data.unlink()

    master.start("wconfd")

    _until_aside(*fleet.nodes, names=["resources.data", "schedules.data"])
    # what is added since replaces no copy
    assert run(*gantry, "schedule", "add", "weekly", "--cron", "0 3 * * 0", "--", "true").code == 0
    wait_until(lambda: _on_all(fleet, "schedules.data", b"weekly"), what="candidates have the new schedule")
    assert "resources.data, schedules.data" in _verify(fleet).out
    rows = json.loads(_repair(fleet).out)["lost"]
    assert [(row["file"], row["becomes"], row["why"]) for row in rows] == [
        ("resources.data", "kept", "kits"),
        ("schedules.data", "paused", "nightly"),
    ]
    assert _repair(fleet, "--fetch").code == 0
    table = run(*gantry, "schedule", "list").out
    states = {line.split()[0]: line.split()[1] for line in table.splitlines()[1:]}
    assert states == {"nightly": "paused", "weekly": "on"}
    assert "kits" in run(*gantry, "resource", "list").out
    assert [_aside(node) for node in fleet.nodes] == [[], []]
    assert json.loads(_repair(fleet).out)["lost"] == []
    assert _verify(fleet).code == 0


def test_an_older_configuration_replaces_no_copy_that_is_not_kept(fleet: Fleet, tmp_path: Path) -> None:
    """Restored from a backup; what was changed since is on the candidates alone."""
    master = fleet.master
    fleet.until_same(*fleet.nodes)
    shutil.copy(master.paths.config_data, tmp_path / "backup")
    fleet.change_node(fleet.nodes[0], tags=["new"])
    fleet.until_same(*fleet.nodes)
    newer = master.paths.config_data.read_bytes()
    master.kill("wconfd")
    shutil.copy(tmp_path / "backup", master.paths.config_data)

    master.start("wconfd")

    _until_aside(*fleet.nodes, names=["config.data"])
    fleet.until_same(*fleet.nodes)
    for node in fleet.nodes:
        (copy,) = node.paths.set_aside.glob("*/config.data")
        assert copy.read_bytes() == newer
        assert f"config.older_here node={node.name}" in master.log("wconfd")
    # the next start has nothing to keep
    master.restart("wconfd")
    fleet.until_same(*fleet.nodes)
    assert _verify(fleet).code == 0
    assert [_aside(node) for node in fleet.nodes] == [["config.data"]] * 2
