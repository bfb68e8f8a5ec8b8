"""A node loses only what the master has removed; what the master has lost is set aside there, and told (DESIGN 11)."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from common.ids import JobId
from common.queue.terms import Hold, JobTerms, terms_entry
from protocol.luxi.daemon import ReadHealth
from protocol.luxi.history import Prune, ReadHistory
from protocol.luxi.jobs import AutoArchiveJobs, SubmitJob
from tests.cli.command import Ended, run
from tests.daemon.luxid.ops import command, dummy
from tests.support.machines.fleet import Fleet, FleetNode, queue_files
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


def _held(fleet: Fleet) -> JobId:
    return fleet.master.submit(dummy(reason=[terms_entry(JobTerms(hold=Hold()), 0).to_wire()]))


def _repair(fleet: Fleet, *words: str) -> Ended:
    return run("gantry", "--root", fleet.master.root, "repair", "--output", "json", *words)


def _verify(fleet: Fleet) -> Ended:
    return run("gnt-cluster", "--root", fleet.master.root, "verify")


def _aside(node: FleetNode) -> Sequence[str]:
    """What a node has set aside, by the names that it had."""
    found = (path for path in node.paths.lost_found.rglob("*") if path.is_file())
    return sorted("/".join(path.relative_to(node.paths.lost_found).parts[1:]) for path in found)


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
    (copy,) = fleet.nodes[0].paths.lost_found.glob(f"*/queue/job-{jobs[0]}")
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
    assert json.loads(_repair(fleet).out) == {"lost": [], "unasked": {}, "left": 0}
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
    copy = queue_files(first.paths)[f"job-{job}"]
    first.freeze()
    changed = run("gnt-job", "--root", fleet.master.root, "modify", str(job), "--label", "a=b")
    assert changed.code == 0, changed.err
    fleet.master.paths.job_file(job).unlink()

    first.thaw()

    _until_aside(first, names=[f"queue/job-{job}"])
    (aside,) = first.paths.lost_found.glob(f"*/queue/job-{job}")
    assert aside.read_bytes() == copy
