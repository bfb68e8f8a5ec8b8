"""Who submits, as luxid tells it: the socket, the job that asks, or a trusted user's word."""

import os
import pwd
from typing import Any, cast

import attrs
import pytest

from common.access import Access, Role
from common.errors import Denied, InvalidRequest, Unavailable
from common.ids import JobId
from common.queue.jobs import Job, JobOp
from common.queue.reasons import NO_UID, JobOwner, owner_entries
from daemons.luxid.core.rights import Submitter
from daemons.luxid.submitters import Submitters
from protocol.peer import Peer, Speaker
from tests.support.accounts.userlookups import without_descriptors
from tests.support.keptvalues import NIGHTLY

pytestmark = pytest.mark.trio
# another user of this machine than the one who runs the tests
OTHER = next(user for user in pwd.getpwall() if user.pw_uid not in (0, os.getuid()))
OWN = Peer(77, os.getuid(), 0, role=Role.FULL)
GATEWAY = Peer(78, 4_000_001, 4_000_001, role=Role.SUBMIT)


def job(job_id: int, owner: JobOwner | None, pid: int | None = None) -> Job:
    reason = [entry.to_wire() for entry in owner_entries(owner, 1)] if owner else []
    return Job(JobId(job_id), (JobOp({"OP_ID": "OP_TEST_DUMMY", "reason": reason}),), process_id=pid)


class Jobs:
    """As much of the live jobs as is asked here."""

    def __init__(self, *jobs: Job) -> None:
        self._jobs = {each.job_id: each for each in jobs}
        self.queue = self.table = self

    def running(self) -> frozenset[JobId]:
        return frozenset(self._jobs)

    def unended(self, job_id: JobId) -> Job:
        return self._jobs[job_id]

    def get(self, job_id: JobId) -> Job | None:
        return self._jobs.get(job_id)


def submitters(*jobs: Job, role: Role = Role.SUBMIT) -> Submitters:
    access = Access(os.getuid(), {OTHER.pw_uid: role}, trusted=frozenset({GATEWAY.uid}))
    return Submitters(access, cast(Any, Jobs(*jobs)))


MINE = JobOwner(OTHER.pw_uid, OTHER.pw_name)
AS_OTHER = Submitter(OTHER.pw_uid, OTHER.pw_name, Role.SUBMIT)


async def test_a_caller_is_who_the_socket_says() -> None:
    assert await submitters().of(Peer(1, OTHER.pw_uid, 0, role=Role.SUBMIT)) == AS_OTHER
    assert await submitters().of(Peer(1, 4_000_002, 0, role=Role.SUBMIT)) == Submitter(4_000_002, "", Role.SUBMIT)
    assert (await submitters().of(OWN)).owner is None


async def test_what_a_job_submits_is_its_owners_as_it_says_or_by_the_pid_of_its_process() -> None:
    """An executor of Ganeti does not name its job; it must not give its jobs more rights than it has."""
    told = submitters(job(5, MINE, pid=76), job(6, None, pid=79), job(7, MINE, pid=OWN.pid))

    assert await told.of(OWN, by_job=JobId(5)) == AS_OTHER
    assert (await told.of(OWN, by_job=JobId(6))).owner is None
    assert await told.of(OWN) == AS_OTHER
    assert (await told.of(attrs.evolve(OWN, pid=75))).owner is None


async def test_a_job_that_is_not_there_submits_nothing() -> None:
    with pytest.raises(InvalidRequest, match="job 9 is not in the queue"):
        await submitters().of(OWN, by_job=JobId(9))


async def test_nobody_but_a_job_process_names_a_job() -> None:
    with pytest.raises(Denied, match="only the process of a job may name it"):
        await submitters(job(5, None)).of(GATEWAY, by_job=JobId(5))


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (JobOwner(OTHER.pw_uid + 4_000_000, OTHER.pw_name), "by now"),
        (JobOwner(4_000_002, ""), "there is no user ''"),
        (JobOwner(4_000_002, "nobody-has-this-name"), "there is no user 'nobody-has-this-name'"),
    ],
)
async def test_an_owner_whose_login_is_gone_or_somebody_elses_submits_nothing(owner: JobOwner, why: str) -> None:
    with pytest.raises((Denied, InvalidRequest), match=why):
        await submitters(job(5, owner)).of(OWN, by_job=JobId(5))


async def test_an_owner_who_lost_his_role_submits_nothing() -> None:
    with pytest.raises(Denied, match="needs the role 'submit'"):
        await submitters(job(5, MINE), role=Role.READ).of(OWN, by_job=JobId(5))


async def test_a_trusted_user_names_another_but_not_one_with_all_rights() -> None:
    own_login = pwd.getpwuid(os.getuid()).pw_name

    assert await submitters().of(GATEWAY, user=OTHER.pw_name) == AS_OTHER
    for login in (own_login, "root"):
        with pytest.raises(Denied, match="has all rights; nobody else can submit in that name"):
            await submitters().of(GATEWAY, user=login)
    with pytest.raises(Denied, match="may not submit in the name of"):
        await submitters().of(attrs.evolve(GATEWAY, uid=4_000_003, role=Role.ADMIN), user=OTHER.pw_name)


AT_NIGHT = Speaker("ci", Role.OPERATE, OTHER.pw_name)
NAMELESS = Speaker("ops", Role.OPERATE)


def speaking(speaker: Speaker) -> Peer:
    uid = OTHER.pw_uid if speaker.login else NO_UID
    return Peer(OWN.pid, uid, uid, role=speaker.role, speaker=speaker, by=OWN)


async def test_what_a_speaker_submits_is_of_its_unix_user_or_of_nobody() -> None:
    known = await submitters().of(speaking(AT_NIGHT))
    unknown = await submitters().of(speaking(NAMELESS))

    assert known.owner == JobOwner(OTHER.pw_uid, OTHER.pw_name, Role.OPERATE, "ci")
    assert unknown.owner == JobOwner(NO_UID, "", Role.OPERATE, "ops")


async def test_a_speaker_with_the_daemons_own_login_is_no_daemon() -> None:
    """Otherwise a submission of such an HTTP user would have all rights."""
    own = pwd.getpwuid(os.getuid())
    peer = Peer(OWN.pid, own.pw_uid, 0, role=Role.SUBMIT, speaker=Speaker("ci", Role.SUBMIT, own.pw_name), by=OWN)

    assert (await submitters(job(7, None, pid=OWN.pid)).of(peer)).role is Role.SUBMIT


@pytest.mark.parametrize("speaker", [AT_NIGHT, NAMELESS])
async def test_what_a_speakers_job_submits_is_the_speakers_with_the_role_that_it_had(speaker: Speaker) -> None:
    owner = (await submitters().of(speaking(speaker))).owner

    again = await submitters(job(5, owner), role=Role.READ).of(OWN, by_job=JobId(5))

    assert again.owner == owner


@pytest.mark.parametrize(
    ("arguments", "why"), [({"user": "root"}, "may not submit in the name of 'root'"), ({"by_job": 5}, "may name it")]
)
async def test_a_speaker_names_neither_another_user_nor_a_job(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(Denied, match=why):
        await submitters(job(5, None)).of(speaking(AT_NIGHT), **arguments)


async def test_a_user_who_cannot_be_looked_up_now_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = submitters()
    without_descriptors(monkeypatch)
    schedule = attrs.evolve(NIGHTLY, user=OTHER.pw_name, uid=OTHER.pw_uid, http_user="", http_role="")

    with pytest.raises(Unavailable, match=r"the users of this machine cannot be read now: Too many open files"):
        await everybody.of_schedule(schedule)
