"""ChangeJobs and CancelJobs by real daemons (DESIGN section 16)."""

import json
import os
import time
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.queue.explanation import SHORTEST_S, OnHold, WaitKind, WaitsForJob
from common.queue.jobs import to_timestamp
from common.queue.terms import Hold, JobTerms, terms_of
from protocol.blocking import BlockingClient
from protocol.luxi.feed import FeedTopic, Subscribe, job_news
from protocol.luxi.jobs import AfterJob, CancelJobs, ChangeJobs, ChangeResult, SubmitJob, TermsChange
from protocol.luxi.queries import QueryFields
from protocol.luxi.queue import ReplaceFilter
from protocol.luxi.why import ExplainJobs, ReadJobWaits
from tests.daemon.luxid.ops import after, command, delay, dummy, gated, read_job
from tests.support.cluster import Cluster
from tests.support.deferred import stated
from tests.support.wait import PATIENCE_S, wait_until


def held_op(**fields: Any) -> dict[str, Any]:
    return dummy(reason=stated(JobTerms("backup", {"team": "web"}, hold=Hold("", 0.0, "not yet"))), **fields)


def change(cluster: Cluster, job_id: int, **changes: Any) -> ChangeResult:
    (done,) = cluster.luxi(ChangeJobs((JobId(job_id),), TermsChange(**changes)))
    return done


def test_a_job_is_held_from_its_submission_until_its_release(cluster: Cluster) -> None:
    job_id = cluster.submit(held_op())
    other = cluster.submit(dummy())
    cluster.wait(other)

    (status, hold) = cluster.job(job_id, "status", "hold")
    assert (status, hold["why"]) == ("queued", "not yet")
    # put by luxid, not by the client
    assert hold["by"] != ""
    assert hold["at"] > 1e9
    assert change(cluster, job_id, release=True) == ChangeResult(True, f"job {job_id} is released")

    assert cluster.wait(job_id) == ["success"]
    assert terms_of(read_job(cluster, job_id)) == JobTerms("backup", {"team": "web"})


def test_each_job_has_its_own_answer(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    gate = tmp_path_factory.mktemp("gate") / "open"
    ended, running = cluster.submit(dummy()), cluster.submit(gated(gate))
    blocked = cluster.submit(dummy(depends=after(running)))
    deferred = cluster.submit(dummy(reason=stated(JobTerms(begin_at=9e9))))
    cluster.wait(ended)
    cluster.wait(running, status="running")

    answers = cluster.luxi(
        ChangeJobs(tuple(map(JobId, (ended, running, blocked, deferred, 99999))), TermsChange(hold="", name="later"))
    )

    assert answers == (
        ChangeResult(False, f"job {ended} has ended (success)"),
        ChangeResult(
            False,
            f"job {running} has begun: only its priority can be changed now, or it can be canceled; all else of it can "
            "be changed while it waits in the queue",
        ),
        ChangeResult(True, f"job {blocked} is held"),
        ChangeResult(True, f"job {deferred} is held"),
        ChangeResult(False, "job 99999 is not in the queue"),
    )
    assert cluster.job(blocked, "status", "name") == ("queued", "later")
    gate.touch()
    cluster.wait(running)
    # what it waited for has ended meanwhile, and was followed
    assert cluster.status(blocked) == "queued"
    assert change(cluster, blocked, release=True).is_done
    assert cluster.wait(blocked) == ["success"]


def test_a_held_job_whose_dependency_fails_ends(cluster: Cluster) -> None:
    first = cluster.submit(delay(60))
    cluster.wait(first, status="running")
    job_id = cluster.submit(held_op(depends=after(first)))

    cluster.luxi(CancelJobs((first,), kill=True))

    assert cluster.wait(first, job_id) == ["canceled", "canceled"]


def test_deferred_jobs_take_no_slot_and_begin_by_the_clock(cluster: Cluster) -> None:
    # the installation has four slots
    held = cluster.submit_many(*[(held_op(),)] * 5)
    soon = cluster.submit(dummy(reason=stated(JobTerms(begin_at=1.0))))
    assert cluster.wait(soon, cluster.submit(dummy())) == ["success", "success"]

    begin = time.time() + 0.5
    assert change(cluster, held[0], release=True, begin_at=begin).is_done

    assert cluster.wait(held[0]) == ["success"]
    started = read_job(cluster, held[0]).start_at
    assert started is not None
    assert started >= to_timestamp(begin)
    assert {cluster.status(job_id) for job_id in held[1:]} == {"queued"}


def test_after_luxid_was_killed_deferred_jobs_wait_on_and_what_is_due_begins(cluster: Cluster) -> None:
    held = cluster.submit(held_op())
    later = cluster.submit(dummy(reason=stated(JobTerms(begin_at=9e9))))
    begin = time.time() + 0.6
    due = cluster.submit(dummy(reason=stated(JobTerms(begin_at=begin))))
    behind = cluster.submit(dummy(depends=after(due)))
    cluster.kill("luxid")
    wait_until(lambda: time.time() > begin, what="the job's time has come while luxid is away")
    cluster.start("luxid")

    assert cluster.wait(due, behind) == ["success", "success"]
    assert [cluster.status(held), cluster.status(later)] == ["queued", "queued"]
    assert change(cluster, held, release=True).is_done
    assert change(cluster, later, begin_at=0.0).is_done
    assert cluster.wait(held, later) == ["success", "success"]


def test_a_change_is_in_the_file_when_it_is_answered_and_filters_find_it(cluster: Cluster) -> None:
    job_id = cluster.submit(held_op())

    assert change(cluster, job_id, name="copy", labels={"team": "db"}, priority=-10, begin_at=9e9).is_done
    cluster.kill("luxid")
    cluster.start("luxid")

    job = read_job(cluster, job_id)
    assert (job.priority, terms_of(job).name, terms_of(job).labels, terms_of(job).begin_at) == (
        -10,
        "copy",
        {"team": "db"},
        9e9,
    )
    assert cluster.job(job_id, "name", "label.team", "label.none", "begin_ts") == ("copy", "db", "", [9_000_000_000, 0])


def test_a_bad_term_refuses_the_job_and_a_bad_change_refuses_the_call(cluster: Cluster) -> None:
    bad = dummy(reason=[["gantry:terms", '{"labels":{"A":"b"}}', 1]])
    with pytest.raises(RemoteError, match="label 'A'"):
        cluster.luxi(SubmitJob((bad,)))
    job_id = cluster.submit(held_op())

    with pytest.raises(RemoteError, match="either held or released"):
        change(cluster, job_id, hold="", release=True)


def test_many_jobs_are_canceled_by_one_call_in_few_groups_of_writes(cluster: Cluster) -> None:
    running = cluster.submit(delay(60))
    cluster.wait(running, status="running")
    waiting = cluster.submit_many(*[(dummy(depends=after(running)),)] * 600)
    held = cluster.submit_many(*[(held_op(),)] * 600)

    answers = cluster.luxi(CancelJobs((*waiting, *held, waiting[0], JobId(99999)), kill=False))

    assert [each.is_done for each in answers] == [True] * 1201 + [False]
    assert set(cluster.wait(*waiting, *held)) == {"canceled"}
    assert cluster.status(running) == "running"
    (reason,) = cluster.job(held[0], "reason")
    assert f"canceled on request of user {os.getuid()}" in reason
    cluster.kill("luxid", 15)
    assert groups_written(cluster) < 40


def groups_written(cluster: Cluster) -> int:
    last = [line for line in cluster.log("luxid").splitlines() if "queue.served" in line][-1]
    return int(last.split("groups=")[1].split()[0])


def test_cancel_of_many_ends_running_ones_too_when_they_are_to_be_killed(cluster: Cluster) -> None:
    running = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*running, status="running")
    queued = cluster.submit_many(*[(delay(60),)] * 4)

    answers = cluster.luxi(CancelJobs((*running, *queued), kill=True))

    assert all(each.is_done for each in answers)
    assert set(cluster.wait(*running, *queued)) == {"canceled"}
    # none of them was started in the place of another
    assert [read_job(cluster, job_id).start_at for job_id in queued] == [None] * 4


def test_a_held_job_takes_no_place_in_a_limit_and_a_rule_that_rejects_it_ends_it(cluster: Cluster) -> None:
    limit = ["gnt:user", "rate-limit:1:disk", 1]
    held = cluster.submit(dummy(reason=[*stated(JobTerms(hold=Hold())), limit]))
    assert cluster.wait(cluster.submit(dummy(reason=[limit]))) == ["success"]

    predicate = ["jobid", ["=", "id", held]]
    uuid = cluster.luxi(ReplaceFilter(None, 0, (predicate,), "REJECT", ()))

    assert cluster.wait(held) == ["canceled"]
    assert f"rejected by filter rule {uuid}" in cluster.job(held, "reason")[0]


def test_why_and_the_waits_tell_of_a_hold_also_after_it(cluster: Cluster) -> None:
    job_id = cluster.submit(held_op(depends=[]))
    (reasons,) = cluster.luxi(ExplainJobs((job_id,)))
    assert reasons is not None
    (hold,) = reasons
    assert isinstance(hold, OnHold)
    assert hold.why == "not yet"

    wait_until(lambda: has_been_held(cluster, job_id), what="the hold lasts long enough to be told")
    change(cluster, job_id, release=True)
    cluster.wait(job_id)

    (spans,) = cluster.luxi(ReadJobWaits((job_id,)))
    assert spans is not None
    assert [(span.cause.kind, span.cause.reason) for span in spans][:1] == [(WaitKind.HOLD, "not yet")]


def has_been_held(cluster: Cluster, job_id: JobId) -> bool:
    """Whether the wait, which begins when the submission is durable, is worth telling."""
    (spans,) = cluster.luxi(ReadJobWaits((job_id,)))
    told = spans or ()
    return bool(told) and time.time() - told[-1].since > SHORTEST_S


def test_the_feed_tells_a_change_with_the_labels_that_are_wanted(cluster: Cluster) -> None:
    job_id = cluster.submit(held_op())
    with BlockingClient(cluster.paths.query_socket) as feed:
        begin = feed.subscribe(Subscribe((FeedTopic.JOBS,), (job_id,), ("name", "label.team", "label.none")))
        assert begin.jobs is not None
        assert [list(each.values or ()) for each in job_news(begin.jobs)] == [["backup", "web", ""]]

        change(cluster, job_id, labels={"team": "db"})

        told = feed.event(PATIENCE_S)
    assert told is not None
    assert '["backup", "db", ""]' in json.dumps(told)


def test_a_label_is_defined_as_a_field_when_it_is_named(cluster: Cluster) -> None:
    told = cluster.luxi(QueryFields(QueryKind.JOB, ("label.team", "nosuch")))

    assert [(field.name, field.kind) for field in told.fields] == [("label.team", "text"), ("nosuch", "unknown")]


def test_a_waiting_job_gets_other_dependencies_and_limits_which_count_when_it_starts(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gate = tmp_path_factory.mktemp("gate") / "open"
    gated_id = cluster.submit(gated(gate))
    job_id = cluster.submit(command("sleep", "600", reason=stated(JobTerms(hold=Hold("", 0.0, "")))))

    assert change(cluster, job_id, after=(AfterJob(JobId(gated_id)),), timeout=0.1, uses={"lic": 1}).is_done
    assert change(cluster, job_id, release=True).is_done
    (reasons,) = cluster.luxi(ExplainJobs((JobId(job_id),)))
    assert [each.job_id for each in reasons or () if isinstance(each, WaitsForJob)] == [gated_id]
    with pytest.raises(RemoteError, match="there is no job 99999 to wait for, neither in the queue nor in the archive"):
        change(cluster, job_id, after=(AfterJob(JobId(99999)),))
    assert change(cluster, gated_id, timeout=5.0).message.startswith(f"job {gated_id} has begun: only its priority")

    assert change(cluster, job_id, without_after=(JobId(gated_id),), without_uses=("lic",)).is_done
    assert cluster.wait(job_id) == ["error"]
    assert "did not end within 0.1 s" in str(cluster.job(job_id, "opresult"))
    gate.touch()
    cluster.wait(gated_id)
