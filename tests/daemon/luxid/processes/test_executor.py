"""An external executor in place of the fork server (luxid.md 5.9, 9; DESIGN section 7)."""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import RemoteError
from common.system.livelock import is_alive
from protocol.luxi.jobs import CancelJob, ChangeJobPriority
from protocol.luxi.queue import ReplaceFilter
from tests.daemon.luxid.ops import after, delay, dummy, read_job
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.fakes.executor import STEPS_AFTER_GO, STEPS_BEFORE_GO
from tests.support.leftovers import kill_all_under
from tests.support.wait import wait_until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An installation with an executor of its own, and no fork server."""
    argv = ["/usr/bin/env", f"PYTHONPATH={CHECKOUT}", sys.executable, "-P", "-m", "tests.support.fakes.executor"]
    rules = "max_running_jobs = 4\nkill_grace_s = 0.5\nsweep_s = 3600.0\n"
    settings = f"[luxid]\n{rules}executor = {json.dumps([*argv, str(tmp_path)])}\n"
    with Cluster(tmp_path, settings=settings) as cluster:
        cluster.start("wconfd", "luxid")
        yield cluster
    # a stand-in that hangs before it has a livelock is in no job file
    kill_all_under(tmp_path)


def behave(cluster: Cluster, **how: Any) -> None:
    (cluster.root / "standin").write_text(json.dumps(how))


def given(cluster: Cluster, job_id: int) -> dict[str, Any]:
    """What the executor was handed."""
    path = cluster.root / f"standin-{job_id}"
    wait_until(lambda: path.exists() and path.read_text(), what="the executor has its secrets")
    return dict(json.loads(path.read_text()))


def children(pid: int) -> list[int]:
    """Zombies and the children of all threads included."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_a_job_is_carried_out_and_its_file_is_followed_in_whatever_style(cluster: Cluster) -> None:
    first, second = cluster.submit_many((dummy(result=1), delay(0.1)), (dummy(depends=after(-1)),))

    assert cluster.wait(first, second) == ["success", "success"]
    assert cluster.job(first, "opresult") == ([1, None],)
    content = cluster.paths.job_file(first).read_bytes()
    assert content.endswith(b"}\n")
    assert read_job(cluster, first).process_id is not None


def test_the_conversation_is_that_of_the_sheet(cluster: Cluster) -> None:
    """luxid.md 9.1, steps 2 to 9."""
    job_id = cluster.submit(dummy(), dummy())
    cluster.wait(job_id)

    assert given(cluster, job_id) == {
        "go": "",
        "secrets": "[null,null]",
        "debug": "0",
        "fds": given(cluster, job_id)["fds"],
        "session": True,
    }
    # its livelock, and nothing of luxid's
    assert len(given(cluster, job_id)["fds"]) == 1


def test_until_the_process_has_a_livelock_the_file_names_that_of_luxid(cluster: Cluster) -> None:
    """luxid.md 9.1, step 1."""
    behave(cluster, hang_at="begin")
    job_id = cluster.submit(dummy())
    wait_until(lambda: read_job(cluster, job_id).livelock, what="the start is written down")

    livelock = read_job(cluster, job_id).livelock or ""
    assert Path(livelock).name.startswith("luxi-daemon_")
    assert is_alive(livelock)
    assert cluster.status(job_id) == "queued"


def test_it_may_have_as_many_descriptors_as_luxid_was_given(cluster: Cluster) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
    try:
        cluster.restart("luxid")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")

    pid = read_job(cluster, job_id).process_id
    assert pid
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (128, before[1])
    assert resource.prlimit(cluster.daemons["luxid"].pid, resource.RLIMIT_NOFILE)[0] == before[1]


def test_slow_starts_go_on_side_by_side(cluster: Cluster) -> None:
    behave(cluster, slow_s=0.3, hang_at="livelock")
    cluster.submit_many(*[(dummy(),)] * 4)

    locks = cluster.paths.livelocks
    wait_until(lambda: len(list(locks.glob("job_*"))) == 4, what="four starts hang at the same step")


@pytest.mark.parametrize("step", STEPS_BEFORE_GO)
def test_a_process_that_dies_before_the_go_ahead_fails_its_job_at_once(cluster: Cluster, step: str) -> None:
    behave(cluster, die_at=step)
    job_id = cluster.submit(dummy(), dummy())

    assert cluster.wait(job_id) == ["error"]
    (results,) = cluster.job(job_id, "opresult")
    assert "could not be started" in results[0]
    job = read_job(cluster, job_id)
    assert job.ops[0].input["reason"][-1][:2] == ["gnt:daemon:luxid:startjobs", results[0]]
    assert job.end_at is not None
    assert cluster.log("luxid").count("job.not_started") == 1


@pytest.mark.parametrize("step", STEPS_AFTER_GO)
def test_a_process_that_dies_later_ends_its_job_by_an_event(cluster: Cluster, step: str) -> None:
    behave(cluster, die_at=step)
    job_id = cluster.submit(dummy())

    assert cluster.wait(job_id) == ["success" if step == "ended" else "error"]
    assert "sweep.found_dead" not in cluster.log("luxid")
    behave(cluster)
    assert cluster.wait(*cluster.submit_many(*[(dummy(),)] * 5)) == ["success"] * 5


@pytest.mark.parametrize("step", ["begin", "sent", "go"])
def test_a_process_that_does_not_answer_is_ended_whatever_it_ignores(cluster: Cluster, step: str) -> None:
    settings = (cluster.root / "gantry.toml").read_text()
    cluster.configure(settings + "start_timeout_s = 0.5\n")
    cluster.restart("luxid")
    behave(cluster, hang_at=step)
    job_id = cluster.submit(dummy())

    assert cluster.wait(job_id) == ["error"]
    wait_until(lambda: not children(cluster.daemons["luxid"].pid), what="it is gone, and reaped")


def test_no_process_is_left_unreaped(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 8))

    wait_until(lambda: not children(cluster.daemons["luxid"].pid), what="all are reaped")


def test_jobs_outlive_luxid_and_are_followed_by_the_next_one(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")
    pid = read_job(cluster, job_id).process_id

    cluster.restart("luxid", signal.SIGTERM)

    assert cluster.status(job_id) == "running"
    (cluster.root / "go").touch()
    assert cluster.wait(job_id) == ["success"]
    assert read_job(cluster, job_id).process_id == pid


@pytest.mark.parametrize("step", [*STEPS_BEFORE_GO, "go"])
def test_a_start_cut_off_by_the_end_of_luxid_is_made_again_once(cluster: Cluster, step: str) -> None:
    behave(cluster, hang_at=step)
    job_id = cluster.submit(dummy(result="once"))
    wait_until((cluster.root / f"standin-hangs-{job_id}").exists, what="the process is at this step")
    (hanging,) = children(cluster.daemons["luxid"].pid)
    cluster.kill("luxid")
    os.kill(hanging, signal.SIGKILL)
    behave(cluster)

    cluster.start("luxid")

    assert cluster.wait(job_id) == ["success"]
    assert cluster.job(job_id, "opresult") == (["once"],)


def test_a_program_that_is_not_there_fails_the_job_and_says_so(cluster: Cluster) -> None:
    cluster.configure('[luxid]\nexecutor = ["/nonexistent/executor"]\n')
    cluster.restart("luxid")
    job_id = cluster.submit(dummy())

    assert cluster.wait(job_id) == ["error"]
    text = "job could not be started: '/nonexistent/executor' cannot be run: no such file or directory"
    assert cluster.job(job_id, "opresult") == ([text],)


def test_a_cancel_is_a_signal_that_takes_effect_between_two_opcodes(cluster: Cluster) -> None:
    """luxid.md 9.4."""
    job_id = cluster.submit(delay(60), dummy())
    cluster.wait(job_id, status="running")

    done, text = cluster.luxi_wire(CancelJob(job_id))

    assert done is False
    assert "what follows is canceled" in text
    (cluster.root / "go").touch()
    assert cluster.wait(job_id) == ["canceled"]
    assert cluster.job(job_id, "opstatus") == (["success", "canceled"],)


def test_a_cancel_during_a_slow_start_waits_for_the_process(cluster: Cluster) -> None:
    behave(cluster, slow_s=0.3)
    job_id = cluster.submit(delay(1))
    wait_until(lambda: read_job(cluster, job_id).livelock, what="the start is written down")

    cluster.luxi(CancelJob(job_id))

    assert cluster.wait(job_id)[0] in ("canceled", "success")


@pytest.mark.parametrize("ignores_term", [True, False])
def test_a_kill_ends_it_whatever_it_ignores(cluster: Cluster, ignores_term: bool) -> None:
    behave(cluster, ignores_term=ignores_term)
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")

    assert cluster.luxi(CancelJob(job_id, kill=True)).is_done is True

    assert cluster.wait(job_id) == ["canceled"]


def test_a_process_that_never_wrote_its_pid_can_be_killed(cluster: Cluster) -> None:
    behave(cluster, hang_at="secrets")
    job_id = cluster.submit(dummy())
    given(cluster, job_id)

    assert cluster.luxi(CancelJob(job_id, kill=True)).is_done is True

    assert cluster.wait(job_id) == ["canceled"]


def test_a_new_priority_is_left_in_a_file_for_its_owner_alone(cluster: Cluster) -> None:
    """luxid.md 2.5, 9.3."""
    job_id = cluster.submit(delay(60), dummy())
    cluster.wait(job_id, status="running")

    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is True

    note = cluster.root / f"standin-priority-{job_id}"
    wait_until(note.exists, what="the process took the priority")
    wait_until(lambda: cluster.job(job_id, "oppriority") == ([0, -10],), what="the file says so")
    assert note.read_text() == "-10 600"


def test_a_process_that_is_not_ready_for_signals_gets_none(cluster: Cluster) -> None:
    behave(cluster, hang_at="secrets")
    job_id = cluster.submit(dummy())
    given(cluster, job_id)

    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is False
    assert not (cluster.paths.messages / f"{job_id}.prio").exists()


def test_a_wrong_priority_never_reaches_a_process(cluster: Cluster) -> None:
    """luxid.md 13, BUG-8."""
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")

    with pytest.raises(RemoteError, match="priority must be"):
        cluster.luxi(ChangeJobPriority(job_id, 5))


def test_secrets_are_handed_over_by_opcode(cluster: Cluster) -> None:
    """luxid.md 9.1, step 8."""
    secret = {"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"pw": "hunter2"}}
    job_id = cluster.submit(dummy(), secret, {"OP_ID": "OP_TEST_OS_PARAMS"})
    cluster.wait(job_id)

    assert json.loads(given(cluster, job_id)["secrets"]) == [None, {"pw": "hunter2"}, None]


@pytest.mark.parametrize("is_heeded", [True, False])
def test_one_that_says_that_it_heeds_a_pause_is_told_by_a_signal(cluster: Cluster, is_heeded: bool) -> None:
    behave(cluster, heeds_pause=is_heeded)
    job_id = cluster.submit(delay(60))
    # luxid knows then that it is ready for signals
    cluster.wait(job_id, status="running")

    cluster.luxi(ReplaceFilter(None, 0, (("jobid", ("=", "id", job_id)),), "PAUSE", ()))

    asked = f"job.pause_asked job={job_id} woken={'true' if is_heeded else 'false'}"
    wait_until(lambda: asked in cluster.log("luxid"), what="it is asked")
    assert cluster.paths.pause_message(job_id).exists()
    if is_heeded:
        events = cluster.root / "standin-events"
        word = f"{job_id} is to pause"
        wait_until(lambda: events.exists() and word in events.read_text(), what="it has looked for the message")


def test_a_kill_ends_its_job_at_once_whatever_the_grace_time(cluster: Cluster) -> None:
    settings = (cluster.root / "gantry.toml").read_text()
    cluster.configure(settings.replace("kill_grace_s = 0.5", "kill_grace_s = 3600.0"))
    cluster.restart("luxid")
    behave(cluster, ignores_term=True)
    job_id = cluster.submit(delay(3600))
    cluster.wait(job_id, status="running")

    assert cluster.luxi(CancelJob(job_id, kill=True)).is_done is True

    assert cluster.wait(job_id) == ["canceled"]
