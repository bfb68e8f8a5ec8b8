"""The submitter of a job, from its reason trail.

Two entries can tell. `gantry:owner` is luxid's: luxid takes the user from the socket, drops such entries from
clients, and writes one into the first opcode of each job that is not submitted by the daemons' user or root.
The entry is durable in the same write as the job, and access rights rest on it. `gantry:login` is the claim of
our command line: good enough to find one's own jobs, but not to grant rights.

A job that was submitted over HTTP has a third entry, `gantry:http` with the name of the HTTP user, also luxid's. Its
`gantry:owner` is that user's Unix user, or nobody, and has the role of the submission: the HTTP users' roles are not
luxid's to look up, and the job may submit jobs itself.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from common.access import Role
from common.queue.jobs import Job
from common.queue.reasons import ReasonEntry, ReasonTrail
from common.queue.tries import SOURCE as TRY_SOURCE

SOURCE: Final = "gantry:login"
OWNER_SOURCE: Final = "gantry:owner"
HTTP_SOURCE: Final = "gantry:http"
_OWNER: Final = re.compile(r"(?:role=([a-z]+);)?uid=(-1|\d{1,10});login=(.*)", re.ASCII | re.DOTALL)
# uid of an owner without a Unix user, and for an entry that cannot be read: no user has it
NO_UID: Final = -1
# sources of entries that only luxid and the processes of jobs write
_LUXIDS: Final = frozenset({OWNER_SOURCE, HTTP_SOURCE, TRY_SOURCE})
_ROLES: Final = {role.word: role for role in Role if role < Role.FULL}


@attrs.frozen
class JobOwner:
    """The user who owns the job."""

    uid: int
    # login name; "": the user has none on this machine
    login: str
    # role of the submission over HTTP; None: it came from this machine, where the role can be looked up
    role: Role | None = None
    # name of the HTTP user
    http_user: str = ""

    @property
    def shown(self) -> str:
        if self.login or self.uid != NO_UID:
            return self.login or str(self.uid)
        return f"http:{self.http_user}"


def submitter_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry with which a client names its user."""
    return ReasonEntry(SOURCE, name, at_ns)


def owner_entries(owner: JobOwner, at_ns: int) -> ReasonTrail:
    """The entries with which luxid names the owner."""
    text = f"uid={owner.uid};login={owner.login}"
    if owner.role is None:
        return (ReasonEntry(OWNER_SOURCE, text, at_ns),)
    entry = ReasonEntry(OWNER_SOURCE, f"role={owner.role.word};{text}", at_ns)
    return (http_entry(owner.http_user, at_ns), entry)


def http_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry with which luxid names an HTTP user."""
    return ReasonEntry(HTTP_SOURCE, name, at_ns)


def without_owner(trail: ReasonTrail) -> ReasonTrail:
    """The trail without entries that clients may not send."""
    if any(entry.source in _LUXIDS for entry in trail):
        return tuple(entry for entry in trail if entry.source not in _LUXIDS)
    return trail


def owner_of(job: Job) -> JobOwner | None:
    """The owner of the job; None: the daemons' user or root."""
    text = _first(_trail_of(job), OWNER_SOURCE)
    if text is None:
        return None
    match = _OWNER.fullmatch(text)
    if match is None or (match[1] is None and match[2] == str(NO_UID)):
        return JobOwner(NO_UID, "")
    if match[1] is None:
        return JobOwner(int(match[2]), match[3])
    http_user = _first(_trail_of(job), HTTP_SOURCE) or ""
    return JobOwner(int(match[2]), match[3], _ROLES.get(match[1], Role.NONE), http_user)


def submitter(job: Job) -> str:
    """The name of the user who submitted a job: its owner, else the name from the client; "" if neither is known."""
    owner = owner_of(job)
    return owner.shown if owner is not None else _first(_trail_of(job), SOURCE) or ""


def _trail_of(job: Job) -> object:
    return job.ops[0].input.get("reason") if job.ops else ()


def _first(trail: object, source: str) -> str | None:
    for entry in trail if isinstance(trail, Iterable) else ():
        match entry:
            case [str() as found, str() as text, *_] if found == source and isinstance(entry, Sequence):
                return text
            case _:
                pass
    return None
