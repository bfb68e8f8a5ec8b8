"""What the master removes goes from the candidates, too (DESIGN sections 12 and 16)."""

from pathlib import Path

from common.queue.explanation import Cause, Span, WaitKind
from common.queue.sidefiles import append_spans
from protocol.luxi.history import Prune, ReadHistory
from protocol.luxi.jobs import AutoArchiveJobs
from tests.daemon.luxid.ops import dummy
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until

RULES = "[retention]\nkeep_jobs = 1\nkeep_per_name = 1\n"


def test_candidates_remove_jobs_and_waits_and_one_of_ganeti_keeps_all_it_has(tmp_path: Path) -> None:
    with Fleet(tmp_path, 2) as fleet:
        ours, theirs = fleet.nodes
        theirs.be_of_ganeti()
        master = fleet.master
        settings = master.root / "gantry.toml"
        settings.write_text(settings.read_text() + RULES)
        fleet.start()
        master.start("forkserver", "luxid")
        master.wait(*master.submit_many(*[(dummy(),)] * 102))
        # the one that stays is the last to end
        master.wait(master.submit(dummy()))
        append_spans(master.paths.waits_file(50), [(50, Span(Cause(WaitKind.TURN), 1.0, 2.0))])
        master.luxi(AutoArchiveJobs(-1, 60))
        fleet.until_same_queue(*fleet.nodes)
        wait_until(lambda: not master.luxi(ReadHistory()).unread, what="the history is complete")

        done = master.luxi(Prune())

        assert (done.jobs, done.waits) == (102, 1)
        fleet.until_same_queue(ours)
        fleet.until_same_state(ours)
        assert len(list(ours.paths.archive.rglob("job-*"))) == 1
        later = master.submit(dummy())
        master.wait(later)
        wait_until(lambda: theirs.paths.job_file(later).exists(), what="the other one has the next job")
        assert len(list(theirs.paths.archive.rglob("job-*"))) == 103
        # an index is each node's own
        assert not ours.paths.history.exists()
