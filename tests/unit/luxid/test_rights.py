"""What a submitter may submit, as whom it runs, and what others see of it."""

from typing import Any

import attrs
import pytest

from common.access import Role
from common.errors import Denied
from common.ids import JobId
from common.opcodes.registry import opcode_classes, parse_opcode
from common.queue.jobs import Job, JobState, LogEntry
from common.queue.reasons import NO_UID, OWNER_SOURCE, JobOwner, owner_of, submitter
from daemons.luxid.core.query.jobs import FIELDS, JobView
from daemons.luxid.core.rights import Host, OwnerRight, Submitter, Viewer, authorize, public_job
from daemons.luxid.core.submission.newjobs import build_jobs
from tests.support.steps import result_of

ROOT, SERVICE = Host(0, "root"), Host(900, "gantry")
ALICE, ADMIN = Submitter(1003, "alice", Role.SUBMIT), Submitter(1004, "adam", Role.ADMIN)
FULL = Submitter(900, "gantry", Role.FULL)


def run(**fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": ["rsync", "-a", "/hush"], **fields}


def allowed(op: dict[str, Any], submitter: Submitter, host: Host = ROOT) -> Any:
    [[authorized]] = authorize([(parse_opcode(op),)], submitter, host)
    return authorized


def job_of(who: Submitter, *ops: dict[str, Any]) -> Job:
    parsed = authorize([tuple(map(parse_opcode, ops))], who, ROOT)
    (job,) = result_of(build_jobs(parsed, JobId(7), ((1, 0), 10**9), who.owner))
    assert isinstance(job, Job)
    return job


def test_a_command_says_as_whom_it_runs_unless_that_is_the_daemons_user() -> None:
    assert allowed(run(), ALICE).user == "alice"
    assert allowed(run(user="alice"), ALICE).user == "alice"
    assert allowed(run(), FULL).user is None
    assert allowed(run(user="root"), FULL).user == "root"
    assert (allowed(run(), ADMIN).user, allowed(run(user="root"), ADMIN).user) == ("adam", "root")


def test_a_command_as_another_needs_an_administrator() -> None:
    for role in (Role.SUBMIT, Role.OPERATE):
        with pytest.raises(Denied, match=r"^opcode 1: a command as 'root' needs the role 'admin'"):
            allowed(run(user="root"), attrs.evolve(ALICE, role=role))


def test_with_a_launcher_commands_of_root_name_root_and_those_of_others_their_submitter() -> None:
    host = attrs.evolve(SERVICE, has_launcher=True)
    root = Submitter(0, "", Role.FULL)

    assert allowed(run(), root, host).user == "root"
    assert allowed(run(user="postgres"), root, host).user == "postgres"
    assert allowed(run(), root, SERVICE).user is None
    # the daemons' own user, and those who have its rights, need no launcher
    assert [allowed(run(), who, host).user for who in (FULL, Submitter(77, "", Role.FULL))] == [None, None]
    assert (allowed(run(), ALICE, host).user, allowed(run(user="root"), ADMIN, host).user) == ("alice", "root")


def test_daemons_that_cannot_become_another_user_refuse_his_commands() -> None:
    for who, user in ((ALICE, None), (ADMIN, None), (ADMIN, "root")):
        with pytest.raises(Denied, match=r"the daemons run as 'gantry', who cannot become another user"):
            allowed(run(user=user), who, SERVICE)

    assert allowed(run(user="gantry"), ADMIN, SERVICE).user == "gantry"
    assert allowed(run(), FULL, SERVICE).user is None


def test_the_place_of_what_is_refused_is_told() -> None:
    delay = parse_opcode({"OP_ID": "OP_TEST_DELAY", "duration": 0})
    rename = parse_opcode({"OP_ID": "OP_CLUSTER_RENAME", "name": "x"})

    with pytest.raises(Denied, match=r"^job 2, opcode 2: OP_CLUSTER_RENAME needs the role 'admin'"):
        authorize([(delay,), (delay, rename)], ALICE, ROOT)


def test_opcodes_that_act_with_the_daemons_rights_are_not_for_everybody() -> None:
    harmless = {op_id for op_id, kind in opcode_classes().items() if kind.SUBMIT_ROLE <= Role.SUBMIT}

    assert harmless == {"OP_RUN_COMMAND", "OP_TEST_DELAY", "OP_TEST_DUMMY"}


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_whole_level_is_locked_by_operators_only_in_whatever_mode(mode: str) -> None:
    op = run(locks={"node/n1": mode, "instance/[lockset]": mode})

    with pytest.raises(
        Denied, match=r"^opcode 1: OP_RUN_COMMAND under 'instance/\[lockset\]', which is for all, needs"
    ):
        allowed(op, ALICE)

    assert allowed(op, attrs.evolve(ALICE, role=Role.OPERATE)).user == "alice"


def test_the_lock_of_the_cluster_is_taken_by_operators_only_and_shared_by_all() -> None:
    alone = {"OP_ID": "OP_TEST_DUMMY", "locks": {"cluster/BGL": "exclusive"}}

    with pytest.raises(Denied, match=r"OP_TEST_DUMMY under 'cluster/BGL', which is for all, needs the role 'operate'"):
        allowed(alone, ALICE)

    assert allowed(alone, attrs.evolve(ALICE, role=Role.OPERATE)).locks
    assert allowed(run(locks={"cluster/BGL": "shared", "node/n1": "exclusive"}), ALICE).user == "alice"


def test_a_node_that_is_named_as_all_nodes_are_is_all_nodes() -> None:
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 1, "no_locks": False, "on_nodes": ["[lockset]"]}

    with pytest.raises(Denied, match=r"OP_TEST_DELAY under 'node/\[lockset\]'"):
        allowed(delay, ALICE)

    assert allowed({**delay, "on_nodes": ["n1"]}, ALICE).on_nodes == ("n1",)


def test_the_owner_is_in_the_first_opcode_once_and_nothing_that_a_client_sends_is() -> None:
    forged = [[OWNER_SOURCE, "uid=1;login=daemon", 5], ["gnt:user", "why", 6], ["gantry:login", "root", 7]]

    job = job_of(ALICE, run(reason=forged), run(reason=forged))

    sources = [[entry[0] for entry in op.input["reason"]] for op in job.ops]
    own = "gnt:opcode:run_command"
    assert sources == [["gnt:user", "gantry:login", OWNER_SOURCE, own], ["gnt:user", "gantry:login", own]]
    assert (owner_of(job), submitter(job)) == (JobOwner(1003, "alice"), "alice")


def test_a_job_of_the_daemons_user_has_no_owner_whatever_its_trail_says() -> None:
    job = job_of(FULL, run(reason=[[OWNER_SOURCE, "uid=1003;login=alice", 5], ["gantry:login", "carol", 6]]))

    assert (owner_of(job), submitter(job)) == (None, "carol")


@pytest.mark.parametrize("text", ["", "uid=;login=alice", "login=alice", "uid=-1;login=x", "uid=1003"])
def test_an_owner_that_cannot_be_read_is_nobody(text: str) -> None:
    job = job_of(ALICE, run())
    [op] = job.ops
    damaged = attrs.evolve(op, input={**op.input, "reason": [[OWNER_SOURCE, text, 1]]})

    assert owner_of(attrs.evolve(job, ops=(damaged,))) == JobOwner(NO_UID, "")


def test_others_see_the_programs_name_and_nothing_that_it_was_given_or_said() -> None:
    job = job_of(ALICE, run(env={"HUSH": "hush"}, cwd="/hush", locks={"node/n1": "shared"}, exit_codes=[3]))
    log = (LogEntry(1, (1, 1), "message", "hush"),)
    [op] = job.ops
    ended = attrs.evolve(job, ops=(attrs.evolve(op, state=JobState.SUCCESS, result={"tail": ["hush"]}, log=log),))

    view = JobView(public_job(ended))
    seen = {name: read(view) for name, read in FIELDS.items()}

    assert "hush" not in str(seen).lower()
    assert seen["summary"] == ["RUN_COMMAND(rsync)"]
    assert (seen["status"], seen["user"]) == ("success", "alice")
    assert isinstance(seen["ops"], list)
    assert seen["ops"][0]["locks"] == {"node/n1": "shared"}
    assert (seen["opresult"], seen["oplog"]) == ([None], [[]])


def test_the_name_that_somebody_gave_the_work_is_for_everybody() -> None:
    job = public_job(job_of(ALICE, run(comment="backup of web1")))

    assert FIELDS["summary"](JobView(job)) == ["RUN_COMMAND(backup of web1)"]


def test_of_a_line_for_the_shell_others_see_not_even_the_first_word() -> None:
    job = public_job(job_of(ALICE, run(argv=["PASSWORD=hush", "mysql"], shell=True)))

    assert "hush" not in str(job)


def test_who_may_see_and_change_a_job() -> None:
    job, roots = job_of(ALICE, run()), job_of(FULL, run())

    def sees(uid: int, role: Role) -> tuple[bool, bool]:
        viewer = Viewer(uid, role)
        return viewer.may_see(job), viewer.may_see(roots)

    assert (sees(1003, Role.SUBMIT), sees(1004, Role.SUBMIT)) == ((True, False), (False, False))
    assert sees(1004, Role.OPERATE) == (True, True)
    with pytest.raises(Denied, match=r"^job 7 cannot be canceled: it belongs to 'alice'; another user needs the role"):
        Viewer(1004, Role.SUBMIT).check_owned(job, OwnerRight.CANCEL)
    with pytest.raises(Denied, match=r"^the output of job 7 cannot be read: it belongs to the daemons' user; another"):
        Viewer(1004, Role.SUBMIT).check_owned(roots, OwnerRight.READ_OUTPUT)


def http(name: str, login: str = "", role: Role = Role.SUBMIT) -> Submitter:
    return Submitter(1003 if login else NO_UID, login, role, name)


def test_the_trail_names_the_http_user_and_whose_the_job_is() -> None:
    job = job_of(http("ci", "alice", Role.OPERATE), run())

    trail = job.ops[0].input["reason"]
    assert isinstance(trail, list)
    assert [entry[:2] for entry in trail[:2]] == [
        ["gantry:http", "ci"],
        ["gantry:owner", "role=operate;uid=1003;login=alice"],
    ]
    assert (owner_of(job), submitter(job)) == (JobOwner(1003, "alice", Role.OPERATE, "ci"), "alice")


def test_a_client_cannot_claim_an_http_user() -> None:
    forged = {"OP_ID": "OP_TEST_DUMMY", "reason": [["gantry:http", "boss", 1], ["mine", "yes", 1]]}

    for who in (ALICE, FULL, http("ci")):
        (kept,) = [entry for entry in allowed(forged, who).reason]
        assert kept.source == "mine"


def test_http_users_without_unix_user_neither_see_nor_change_each_others_jobs() -> None:
    job = job_of(http("ci"), {"OP_ID": "OP_TEST_DUMMY"})

    assert submitter(job) == "http:ci"
    for name in ("ci", "other"):
        viewer = Viewer(NO_UID, Role.SUBMIT, name)
        assert not viewer.may_see(job)
        with pytest.raises(Denied, match=f"and HTTP user '{name}' has only 'submit'; .*'gantry user'"):
            viewer.check_owned(job, OwnerRight.CANCEL)


@pytest.mark.parametrize("role", [Role.SUBMIT, Role.ADMIN])
@pytest.mark.parametrize("user", [None, "root"])
def test_an_http_user_without_unix_user_runs_no_command(role: Role, user: str | None) -> None:
    why = "opcode 1: HTTP user 'ci' has no Unix user, so no command can run for it; .*'--unix-user LOGIN'.*"
    with pytest.raises(Denied, match=why):
        allowed(run(user=user), http("ci", role=role))


def test_submission_keys_of_http_users_without_unix_user_are_their_own() -> None:
    owners = [http("ci"), http("other"), http("ci", "alice"), ALICE]

    assert [each.key_owner for each in owners] == ["http 'ci'", "http 'other'", "1003", "1003"]
