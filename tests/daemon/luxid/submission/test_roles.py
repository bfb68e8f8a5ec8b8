"""Who may call what, and as whom jobs run: real daemons, and processes of other users (DESIGN section 4)."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.queue.terms import Hold, JobTerms
from protocol.luxi.jobs import (
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    CancelJobs,
    ChangeJobPriority,
    ChangeJobs,
    ReadJobOutput,
    SubmitJob,
    SubmitManyJobs,
    TermsChange,
)
from protocol.luxi.queries import Query, QueryJobs, WaitForJobChange
from protocol.luxi.queue import ReplaceFilter, SetDrainFlag, SetWatcherPause
from protocol.messages import Request
from tests.daemon.luxid.ops import command, dummy, gated, read_job
from tests.support.accounts.users import (
    ADMIN,
    ALICE,
    BOB,
    GATEWAY,
    OPERATOR,
    READER,
    Refused,
    call_as,
    needs_root,
    uid_of,
)
from tests.support.cluster import Cluster
from tests.support.deferred import stated

pytestmark = needs_root
ROLES = f"""
[luxid]
sweep_s = 3600.0
kill_grace_s = 0.5
[access]
read = ["@nogroup"]
submit = ["{ALICE}", {uid_of(BOB)}, 4001]
operate = ["{OPERATOR}"]
admin = ["{ADMIN}"]
trusted = ["{GATEWAY}"]
"""
EVERYTHING = ("ops", "opresult", "oplog", "summary", "summary_text")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("roles"), settings=ROLES) as cluster:
        cluster.start()
        yield cluster


def submit_as(login: str, cluster: Cluster, *ops: dict[str, Any]) -> JobId:
    return JobId(call_as(login, cluster, SubmitJob(ops)))


def printed(cluster: Cluster, job_id: int) -> str:
    cluster.wait(job_id)
    return cluster.luxi(ReadJobOutput(JobId(job_id))).text.strip()


def row_as(login: str, cluster: Cluster, job_id: int, *fields: str) -> list[Any]:
    return list(call_as(login, cluster, QueryJobs((JobId(job_id),), fields))[0])


@pytest.mark.parametrize("login", [ALICE, OPERATOR, ADMIN])
def test_a_command_runs_as_the_user_at_the_other_end_of_the_socket(cluster: Cluster, login: str) -> None:
    job_id = submit_as(login, cluster, command("id", "-u"))

    assert printed(cluster, job_id) == str(uid_of(login))
    assert read_job(cluster, job_id).ops[0].input["user"] == login
    assert cluster.job(job_id, "user") == (login,)


def test_a_command_of_another_user_cannot_read_what_is_roots_alone(cluster: Cluster, tmp_path: Path) -> None:
    job_id = submit_as(ALICE, cluster, command("cat", "/etc/shadow"))

    assert cluster.wait(job_id) == ["error"]
    assert "Permission denied" in printed(cluster, job_id)


@pytest.mark.parametrize("login", [ALICE, OPERATOR])
@pytest.mark.parametrize("user", ["root", BOB])
def test_a_command_as_somebody_else_is_for_administrators(cluster: Cluster, login: str, user: str) -> None:
    with pytest.raises(Refused, match=f"a command as '{user}' needs the role 'admin', and user {uid_of(login)}") as no:
        submit_as(login, cluster, command("id", "-u", user=user))

    assert no.value.code == "denied"
    assert printed(cluster, submit_as(ADMIN, cluster, command("id", "-u", user=user))) == str(uid_of(user))


def test_who_has_no_login_can_submit_no_command(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="opcode 2: user 4001 has no login on this machine"):
        call_as(4001, cluster, SubmitJob((dummy(), command("id"))))


@pytest.mark.parametrize("uid", [1003, 4002])
def test_who_has_no_role_may_not_call(cluster: Cluster, uid: int) -> None:
    with pytest.raises(Refused, match=f"user {uid} may not call this daemon") as no:
        call_as(uid, cluster, QueryJobs((), ("id",)))

    assert no.value.code == "denied"


@pytest.mark.parametrize(
    ("login", "call", "role"),
    [
        (READER, SubmitJob((dummy(),)), "submit"),
        (READER, CancelJob(JobId(1)), "submit"),
        (ALICE, SetDrainFlag(True), "operate"),
        (ALICE, SetWatcherPause(None), "operate"),
        (ALICE, AutoArchiveJobs(-1, 1), "operate"),
        (ALICE, ReplaceFilter(None, 0, (), "REJECT", ()), "operate"),
        (ALICE, SubmitJob(({"OP_ID": "OP_NODE_EVACUATE", "node_name": "n", "mode": "all"},)), "operate"),
        (ALICE, SubmitJob((command("sleep", "9", locks={"cluster/BGL": "exclusive"}),)), "operate"),
        (ALICE, SubmitJob((dummy(submit_jobs=[]), command("true", locks={"node/[lockset]": "shared"}))), "operate"),
        (OPERATOR, SubmitJob(({"OP_ID": "OP_CLUSTER_RENAME", "name": "other.test"},)), "admin"),
    ],
)
def test_a_call_beyond_the_role_is_refused_and_says_which_it_takes(
    cluster: Cluster, login: str, call: Any, role: str
) -> None:
    with pytest.raises(Refused, match=rf"needs the role '{role}', .*'\[access\]'") as no:
        call_as(login, cluster, call)

    assert no.value.code == "denied"
    assert not cluster.paths.drain_file.exists()
    assert re.search(rf"call\.denied method={call.METHOD} pid=\d+ uid={uid_of(login)} ", cluster.log("luxid"))


def test_an_owner_that_a_client_claims_is_none(cluster: Cluster) -> None:
    """Neither in a trail of its own, nor in one that a job of his hands on."""
    forged = [["gantry:owner", f"uid={uid_of(BOB)};login={BOB}", 1], ["gantry:login", "root", 2]]
    child = command("id", "-u", reason=forged)
    job_id = submit_as(ALICE, cluster, dummy(reason=forged, submit_jobs=[[child]]), dummy(reason=forged))
    assert cluster.wait(job_id) == ["success"]

    [[_, child_id]] = cluster.job(job_id, "opresult")[0][0]["jobs"]

    assert [cluster.job(each, "user") for each in (job_id, child_id)] == [(ALICE,)] * 2
    assert printed(cluster, child_id) == str(uid_of(ALICE))
    assert row_as(BOB, cluster, job_id, "opresult") == [[None, None]]


def test_a_job_of_root_that_claims_an_owner_stays_roots(cluster: Cluster) -> None:
    job_id = cluster.submit(command("id", "-u", reason=[["gantry:owner", f"uid={uid_of(BOB)};login={BOB}", 1]]))

    assert (printed(cluster, job_id), cluster.job(job_id, "user")) == ("0", ("",))
    with pytest.raises(Refused, match="the output of job"):
        call_as(BOB, cluster, ReadJobOutput(job_id))


def test_arguments_environment_results_log_and_output_are_the_owners_and_the_operators(cluster: Cluster) -> None:
    op = command("echo", "hush-argument", env={"HUSH": "hush-environment"})
    said = dummy(messages=["hush-log"], result="hush-result")
    job_id = submit_as(ALICE, cluster, op, said)
    assert cluster.wait(job_id) == ["success"]

    for login in (READER, BOB):
        seen = json.dumps(row_as(login, cluster, job_id, *EVERYTHING))
        assert "hush" not in seen
        assert '"argv": ["echo"]' in seen
        assert "RUN_COMMAND(echo)" in seen
        news = str(call_as(login, cluster, WaitForJobChange(job_id, EVERYTHING, None, None, 0)))
        assert "hush" not in news
        with pytest.raises(Refused, match=f"cannot be read: it belongs to '{ALICE}'; another user needs"):
            call_as(login, cluster, ReadJobOutput(job_id))
    for login in (ALICE, OPERATOR):
        seen = json.dumps(row_as(login, cluster, job_id, *EVERYTHING))
        assert all(f"hush-{what}" in seen for what in ("argument", "environment", "log", "result"))
        assert call_as(login, cluster, ReadJobOutput(job_id)).text == "hush-argument\n"


def test_a_filter_does_not_tell_what_is_hidden(cluster: Cluster) -> None:
    job_id = submit_as(ALICE, cluster, command("true", "needle-in-a-job"))
    cluster.wait(job_id)
    asked = Query(QueryKind.JOB, ("id",), Expression.from_wire(["=~", "summary_text", "needle"]))

    assert call_as(BOB, cluster, asked).data == []
    assert call_as(ALICE, cluster, asked).data == [[[0, job_id]]]


def test_the_job_of_another_is_changed_by_operators_only(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    tmp_path.chmod(0o755)
    job_id = cluster.submit(gated(gate))
    mine = submit_as(ALICE, cluster, dummy(depends=[[job_id, ["success"]]]))
    changes: dict[str, Request[Any]] = {
        "be canceled": CancelJob(mine),
        "get another priority": ChangeJobPriority(mine, 10),
        "be archived": ArchiveJob(mine),
    }

    for deed, call in changes.items():
        why = f"^job {mine} cannot {deed}: it belongs to '{ALICE}'; another user needs the role 'operate', and user"
        with pytest.raises(Refused) as refused:
            call_as(BOB, cluster, call)
        assert refused.value.code == "denied"
        assert re.match(why, refused.value.message)
    with pytest.raises(Refused, match="it belongs to the daemons' user; another user needs the role 'operate'"):
        call_as(ALICE, cluster, CancelJob(job_id))

    assert call_as(OPERATOR, cluster, ChangeJobPriority(mine, -10)).is_done is True
    assert call_as(ALICE, cluster, ChangeJobPriority(mine, 10)).is_done is True
    assert call_as(ALICE, cluster, CancelJob(mine)).is_done is True
    assert call_as(ALICE, cluster, ArchiveJob(mine)) is True
    assert call_as(OPERATOR, cluster, CancelJob(job_id, kill=True)).is_done is True


def test_of_many_jobs_those_of_others_are_refused_and_ones_own_are_changed(cluster: Cluster) -> None:
    held = dummy(reason=stated(JobTerms(hold=Hold())))
    mine, theirs = submit_as(ALICE, cluster, held), submit_as(BOB, cluster, held)

    renamed = call_as(ALICE, cluster, ChangeJobs((theirs, mine), TermsChange(name="x")))
    held_by = [row_as(ALICE, cluster, job_id, "name", "hold")[1]["by"] for job_id in (mine, theirs)]
    canceled = call_as(ALICE, cluster, CancelJobs((theirs, mine)))

    for deed, (refused, done) in (("changed", renamed), ("canceled", canceled)):
        assert not refused.is_done
        assert refused.message.startswith(f"job {theirs} cannot be {deed}: it belongs to '{BOB}'; another user needs")
        assert done.is_done
    assert held_by == [ALICE, BOB]
    assert cluster.job(theirs, "status", "name") == ("queued", "")
    assert cluster.status(mine) == "canceled"


def test_an_ended_job_of_another_is_refused_also_when_it_is_archived(cluster: Cluster) -> None:
    ended, archived = submit_as(BOB, cluster, dummy()), submit_as(BOB, cluster, dummy())
    cluster.wait(ended, archived)
    call_as(BOB, cluster, ArchiveJob(archived))

    answers = call_as(ALICE, cluster, CancelJobs((ended, archived, JobId(99999)), kill=True))

    whose = f"it belongs to '{BOB}'; another user needs the role 'operate'"
    assert [whose in each.message for each in answers] == [True, True, False]
    assert not any(each.is_done for each in answers)


def test_only_operators_lift_the_hold_of_an_operator(cluster: Cluster) -> None:
    mine = submit_as(ALICE, cluster, dummy(reason=stated(JobTerms(begin_at=9e9))))
    free = ChangeJobs((mine,), TermsChange(release=True, begin_at=0.0))

    (held,) = call_as(OPERATOR, cluster, ChangeJobs((mine,), TermsChange(hold="")))
    (refused,) = call_as(ALICE, cluster, free)

    assert held.is_done
    assert refused.message == f"job {mine} is held by '{OPERATOR}'; only an operator releases it"
    assert call_as(OPERATOR, cluster, free)[0].is_done
    assert cluster.wait(mine) == ["success"]


def test_only_who_is_trusted_submits_in_the_name_of_another(cluster: Cluster) -> None:
    cluster.configure(ROLES.replace(f'submit = ["{ALICE}"', f'submit = ["{GATEWAY}", "{ALICE}"'))
    cluster.restart("luxid")
    op = command("id", "-u")

    job_id = JobId(call_as(GATEWAY, cluster, SubmitJob((op,), user=ALICE)))

    assert printed(cluster, job_id) == str(uid_of(ALICE))
    assert row_as(ALICE, cluster, job_id, "user", "opresult")[1] != [None]
    assert row_as(GATEWAY, cluster, job_id, "user", "opresult") == [ALICE, [None]]
    assert f"job={job_id} opcodes=1 uid={uid_of(ALICE)}" in cluster.log("luxid")
    assert f"by_uid={uid_of(GATEWAY)}" in cluster.log("luxid")
    for login, user, why in (
        (GATEWAY, "root", "'root' has all rights"),
        (GATEWAY, READER, "needs the role 'submit'"),
        (GATEWAY, "no-such-user", "there is no user 'no-such-user'"),
        (ALICE, BOB, f"user {uid_of(ALICE)} may not submit in the name of '{BOB}'"),
        (ADMIN, BOB, "'trusted' in"),
    ):
        with pytest.raises(Refused, match=why):
            call_as(login, cluster, SubmitJob((op,), user=user))
    with pytest.raises(Refused, match="only the process of a job may name it"):
        call_as(ALICE, cluster, SubmitManyJobs(((op,),), by_job=job_id))


def test_whose_a_job_is_outlives_a_kill_of_luxid_and_the_archive(cluster: Cluster) -> None:
    job_id = submit_as(ALICE, cluster, command("echo", "mine"))
    cluster.wait(job_id)

    cluster.restart("luxid")
    assert row_as(BOB, cluster, job_id, "user", "opresult") == [ALICE, [None]]
    cluster.luxi(ArchiveJob(job_id))

    assert row_as(BOB, cluster, job_id, "user", "opresult") == [ALICE, [None]]
    assert call_as(ALICE, cluster, ReadJobOutput(job_id)).text == "mine\n"
    with pytest.raises(Refused, match="needs the role 'operate'"):
        call_as(BOB, cluster, ReadJobOutput(job_id))


def test_who_has_all_rights_acts_as_the_daemons_user(tmp_path: Path) -> None:
    """Ganeti's rule, for those whom `uids` and `gids` name."""
    given = f'[access]\nuids = ["{ALICE}"]\ngids = ["{BOB}"]\nsocket_mode = 0o666\n'
    with Cluster(tmp_path, settings=given) as cluster:
        cluster.paths.sockets.chmod(0o711)
        cluster.start()

        for login in (ALICE, BOB):
            job_id = submit_as(login, cluster, command("id", "-u"))
            assert (printed(cluster, job_id), cluster.job(job_id, "user")) == ("0", ("",))
            assert "user" not in read_job(cluster, job_id).ops[0].input
            assert call_as(login, cluster, CancelJob(job_id)).is_done is False


def test_what_jobs_leave_on_disk_is_not_for_others(cluster: Cluster) -> None:
    job_id = submit_as(ALICE, cluster, command("echo", "hush"))
    cluster.wait(job_id)
    output, times = sorted(cluster.paths.output.glob(f"job-{job_id}.*"))

    for path in (output, times, cluster.paths.job_file(job_id), cluster.paths.output, cluster.paths.queue):
        assert not path.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP), path


def test_root_jobs_have_the_same_files_as_ever(cluster: Cluster) -> None:
    """Who needs no owner pays for none."""
    job_id = cluster.submit(command("true"))

    [entry] = read_job(cluster, job_id).ops[0].input["reason"]

    assert entry[0] == "gnt:opcode:run_command"
    assert "user" not in read_job(cluster, job_id).ops[0].input
