"""A command on a node while everything around it is killed: it runs once, under its locks, and is followed to its end.

DESIGN sections 13 and 14.
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from common.ids import JobId
from common.queue.jobfile import decode_job
from common.queue.jobs import Job
from protocol.luxi.jobs import CancelJob
from protocol.wconfd.locks import ListOrphanedLocks
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), 1) as fleet:
        own = fleet.master.root / "gantry.toml"
        own.write_text(own.read_text() + "[luxid]\nkill_grace_s = 0.3\n")
        fleet.nodes[0].start()
        fleet.master.start("noded", "wconfd", "forkserver", "luxid")
        yield fleet


class Story:
    """A command that writes lines until its gate is open, and a rival for its lock; both note what they do."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.node: FleetNode = fleet.nodes[0]
        self.tally = fleet.master.root / f"{name}.tally"
        self.gate = fleet.master.root / f"{name}.gate"
        locks = {f"instance/{name}": "exclusive"}
        lines = f"i=0; until [ -e {self.gate} ]; do echo line $i; i=$((i+1)); sleep 0.02; done"
        script = f"echo begin >> {self.tally}; {lines}; echo end $i >> {self.tally}"
        self.job = self._submit(script, locks)
        fleet.master.wait(self.job, status="running")
        self.until_followed()
        self.rival = self._submit(f"echo rival >> {self.tally}", locks)

    def _submit(self, script: str, locks: dict[str, str]) -> JobId:
        op = {"OP_ID": "OP_RUN_COMMAND", "argv": [script], "shell": True, "node": self.node.name, "locks": locks}
        return self.fleet.master.submit(op)

    def file(self) -> Job:
        return decode_job(self.fleet.master.paths.job_file(self.job).read_bytes(), "job")

    def output(self) -> bytes:
        paths = self.fleet.master.paths
        return b"".join(path.read_bytes() for path in sorted(paths.output.glob(f"job-{self.job}.0*")))

    def kill_process(self) -> int:
        """Kill the job's process; returns its pid."""
        pid = self.file().process_id
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def until_taken_up(self, after: int) -> None:
        """Wait until a process other than this one follows the command."""
        wait_until(lambda: self.file().process_id not in (after, None), what="another process is there")

    def until_followed(self) -> None:
        """Wait for output that is written after this call."""
        before = len(self.output())
        wait_until(lambda: len(self.output()) > before, what="it is followed")

    def check_end(self) -> None:
        """The command ran once, the lock was not free meanwhile, and nothing of its output is missing or twice."""
        master = self.fleet.master
        assert self.tally.read_text().split() == ["begin"]
        assert master.status(self.job) == "running"
        self.gate.touch()

        assert master.wait(self.job, self.rival) == ["success", "success"]
        begin, end, count, rival = self.tally.read_text().split()
        assert (begin, end, rival) == ("begin", "end", "rival")
        assert self.output() == b"".join(b"line %d\n" % number for number in range(int(count)))
        assert master.wconf(ListOrphanedLocks()) == ()


def test_the_death_of_a_daemon_does_not_concern_it(fleet: Fleet) -> None:
    story = Story(fleet, "without-daemons")

    for daemon in ("forkserver", "luxid", "wconfd"):
        fleet.master.restart(daemon)
        story.until_followed()
    story.node.kill()
    story.node.start()
    story.until_followed()

    story.check_end()


def test_however_often_its_process_dies_another_one_takes_it_up(fleet: Fleet) -> None:
    story = Story(fleet, "without-process")

    for _ in range(2):
        story.until_taken_up(after=story.kill_process())
        story.until_followed()

    story.check_end()


def test_all_may_die_at_the_same_time(fleet: Fleet) -> None:
    story = Story(fleet, "without-all")

    story.node.kill()
    for daemon in ("luxid", "wconfd", "forkserver"):
        fleet.master.kill(daemon)
    pid = story.kill_process()
    story.node.start()
    fleet.master.start("wconfd", "forkserver", "luxid")

    story.until_taken_up(after=pid)
    story.check_end()


def test_a_job_that_is_killed_while_it_has_no_process_frees_its_locks_by_the_word_of_its_node(fleet: Fleet) -> None:
    story = Story(fleet, "killed")
    master = fleet.master
    master.kill("forkserver")
    story.node.kill()
    story.kill_process()
    wait_until(lambda: f"job.orphaned job={story.job} " in master.log("luxid"), what="its death is known")

    done: Any = master.luxi(CancelJob(story.job, kill=True))

    assert done.is_done
    assert master.wait(story.job) == ["canceled"]
    # wconfd hears of the death by itself
    wait_until(lambda: master.wconf(ListOrphanedLocks()), what="its locks are orphaned")
    [orphan] = master.wconf(ListOrphanedLocks())
    assert orphan.owner.ident == story.job
    assert story.tally.read_text().split() == ["begin"]
    master.start("forkserver")
    story.node.start()
    assert master.wait(story.rival) == ["success"]
    assert story.tally.read_text().split() == ["begin", "rival"]
