"""The submitter of a call: the user at the other end of the socket, the owner of a calling job, or a named user.

Source: DESIGN section 4, "Who is calling".
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from common.access import Access, Role, caller_text, check_role
from common.errors import Denied, InvalidRequest, Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.queue.reasons import JobOwner, owner_of
from common.schedules.schedule import Schedule
from common.system.accounts import groups_of, user_named, user_numbered
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.rights import Host, Submitter
from daemons.luxid.core.schedules import ScheduleOwner
from daemons.luxid.jobs import LiveJobs
from protocol.peer import Peer, Speaker

_log: Final = get_log(__name__)


class Submitters:
    """Finds the submitter of each call.

    Args: launcher: socket of the launcher, which may come and go; None: there is none.
    """

    def __init__(self, access: Access, jobs: LiveJobs, launcher: Path | None = None) -> None:
        self._access = access
        self._jobs = jobs
        self._launcher = launcher
        self._host: Final = Host(os.getuid(), _login_of(os.getuid()))

    @property
    def host(self) -> Host:
        """The user of the daemons, and what commands they can start now."""
        if self._host.uid == 0 or self._launcher is None:
            return self._host
        return attrs.evolve(self._host, has_launcher=self._launcher.exists())

    async def of(self, peer: Peer, user: str | None = None, by_job: JobId | None = None) -> Submitter:
        """Return the submitter of this call.

        Args:
            user: name of the user to submit for; None: the caller.
            by_job: job whose process calls; None: not a job, or a job process that does not say so (Ganeti's).
        Raises: Denied: the caller may not name another user, or that user may not submit.
            InvalidRequest: the user or the job does not exist.
        """
        if peer.speaker is not None:
            return _of_speaker(peer, peer.speaker, user, by_job)
        if user is not None:
            return await self._named(user, peer)
        if by_job is not None and peer.uid != self.host.uid:
            raise Denied(f"only the process of a job may name it, and user {peer.uid} has none")
        if peer.uid == self.host.uid:
            return await self._of_job(by_job or self._job_of(peer), peer)
        # a caller with the rights of the daemons' user needs no name
        login = "" if peer.role is Role.FULL else await in_thread(_login_of, peer.uid)
        return Submitter(peer.uid, login, peer.role)

    async def _named(self, login: str, peer: Peer) -> Submitter:
        if not self._access.may_speak_for_others(peer.uid):
            raise Denied(
                f"user {peer.uid} may not submit in the name of {login!r}; 'trusted' in '[access]' of the settings "
                "names those who may"
            )
        named = await self._known(login)
        if named.role > max(peer.role, Role.ADMIN):
            raise Denied(f"{login!r} has all rights; nobody else can submit in that name")
        return named

    async def _of_job(self, job_id: JobId | None, peer: Peer) -> Submitter:
        """The owner of the job, who also owns the jobs that it submits."""
        if job_id is None:
            return Submitter(peer.uid, self.host.login, Role.FULL)
        job = self._jobs.table.get(job_id)
        if job is None:
            raise InvalidRequest(f"job {job_id} is not in the queue, so it can submit nothing")
        return await self._of_owner(owner_of(job), f"job {job_id}")

    async def of_schedule(self, schedule: Schedule) -> Submitter:
        """The user of a schedule, with the role that he has now.

        Raises: Denied: he may not submit any more. InvalidRequest: he does not exist any more.
        """
        return await self._of_owner(self._owner_of(schedule), f"schedule '{schedule.name}'")

    async def owner_of_schedules(self, submitter: Submitter) -> ScheduleOwner:
        """As whose they are kept. Raises: Denied: the user has no name on this machine."""
        if submitter.http_user is not None:
            return ScheduleOwner(submitter.uid, submitter.login, submitter.http_user, submitter.role.word)
        login = submitter.login or await in_thread(_login_of, submitter.uid)
        if not login:
            raise Denied(f"user {submitter.uid} has no login on this machine, so no job can be submitted for him later")
        return ScheduleOwner(submitter.uid, login)

    def _owner_of(self, schedule: Schedule) -> JobOwner | None:
        if schedule.http_user:
            role = next((role for role in Role if role.word == schedule.http_role), Role.NONE)
            return JobOwner(schedule.uid, schedule.user, role, schedule.http_user)
        return None if schedule.uid == self.host.uid else JobOwner(schedule.uid, schedule.user)

    async def _of_owner(self, owner: JobOwner | None, what: str) -> Submitter:
        if owner is None:
            return Submitter(self.host.uid, self.host.login, Role.FULL)
        if owner.role is not None:
            return await self._of_http(owner)
        submitter = await self._known(owner.login)
        if submitter.uid != owner.uid:
            raise Denied(f"{what} is of user {owner.uid}, and {owner.login!r} is user {submitter.uid} by now")
        return submitter

    async def _of_http(self, owner: JobOwner) -> Submitter:
        """An HTTP user, with the role of the submission; the Unix user must still be the same."""
        role = owner.role or Role.NONE
        check_role(role, Role.SUBMIT, owner.http_user, "a submission")
        if owner.login and (found := await in_thread(self._look_up, owner.login)).uid != owner.uid:
            raise Denied(f"the job is of user {owner.uid}, and {owner.login!r} is user {found.uid} by now")
        return Submitter(owner.uid, owner.login, role, owner.http_user)

    async def _known(self, login: str) -> Submitter:
        """A user of this machine with the role. Raises: Denied: they may not submit. InvalidRequest: there is none."""
        submitter = await in_thread(self._look_up, login)
        check_role(submitter.role, Role.SUBMIT, submitter.uid, f"a submission of {login!r}")
        return submitter

    def _look_up(self, login: str) -> Submitter:
        """Raises: InvalidRequest: there is no such user. Unavailable: users cannot be read now."""
        if (found := user_named(login)) is None:
            raise InvalidRequest(f"there is no user {login!r:.80} on this machine")
        return Submitter(found.pw_uid, found.pw_name, self._access.role_of(found.pw_uid, groups_of(found)))

    def _job_of(self, peer: Peer) -> JobId | None:
        """The job whose process is the peer."""
        running = map(self._jobs.unended, self._jobs.queue.running())
        return next((job.job_id for job in running if job.process_id == peer.pid), None)


async def roles_of(access: Access, jobs: Iterable[Job]) -> Mapping[int, Role]:
    """The present roles of the Unix users whose these jobs are; one who cannot be looked up now has none."""
    found: dict[int, Role] = {}
    if not access.is_shared:
        # nobody but those with all rights, whose jobs have no owner
        return found
    for owner in {owner for job in jobs if (owner := owner_of(job)) is not None and owner.role is None}:
        try:
            found[owner.uid] = await in_thread(_role_of, access, owner)
        except Unavailable as error:
            _log.warning("role.unknown", user=owner.login, reason=error, effect="the jobs get no reserved places")
    return found


def _role_of(access: Access, owner: JobOwner) -> Role:
    """Raises: Unavailable: users cannot be read now."""
    user = user_named(owner.login) if owner.login else None
    groups = groups_of(user) if user is not None and user.pw_uid == owner.uid else ()
    return access.role_of(owner.uid, groups)


def _of_speaker(peer: Peer, speaker: Speaker, user: str | None, by_job: JobId | None) -> Submitter:
    who = caller_text(speaker.name)
    if by_job is not None:
        raise Denied(f"only the process of a job may name it, and {who} is none")
    if user is not None and user != speaker.login:
        raise Denied(f"{who} may not submit in the name of {user!r}")
    return Submitter(peer.uid, speaker.login or "", peer.role, speaker.name)


def _login_of(uid: int) -> str:
    """Empty: the user has none. Raises: Unavailable: users cannot be read now."""
    found = user_numbered(uid)
    return "" if found is None else found.pw_name
