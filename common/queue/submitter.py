"""The submitter of a job, from its reason trail.

Two entries can tell. `gantry:owner` is luxid's: luxid takes the user from the socket, drops such entries from
clients, and writes one into the first opcode of each job that is not submitted by the daemons' user or root.
The entry is durable in the same write as the job, and access rights rest on it. `gantry:login` is the claim of
our command line: good enough to find one's own jobs, but not to grant rights.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from common.queue.jobs import Job
from common.queue.reasons import ReasonEntry, ReasonTrail

SOURCE: Final = "gantry:login"
OWNER_SOURCE: Final = "gantry:owner"
_OWNER: Final = re.compile(r"uid=(\d{1,10});login=(.*)", re.ASCII | re.DOTALL)
# uid for an entry that cannot be read: no user has it
NO_UID: Final = -1


@attrs.frozen
class JobOwner:
    """The user who owns the job."""

    uid: int
    # login name; "": the user has none on this machine
    login: str

    @property
    def shown(self) -> str:
        return self.login or str(self.uid)


def submitter_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry with which a client names its user."""
    return ReasonEntry(SOURCE, name, at_ns)


def owner_entry(owner: JobOwner, at_ns: int) -> ReasonEntry:
    """The entry with which luxid names the owner."""
    return ReasonEntry(OWNER_SOURCE, f"uid={owner.uid};login={owner.login}", at_ns)


def without_owner(trail: ReasonTrail) -> ReasonTrail:
    """The trail without entries that clients may not send."""
    if any(entry.source == OWNER_SOURCE for entry in trail):
        return tuple(entry for entry in trail if entry.source != OWNER_SOURCE)
    return trail


def owner_of(job: Job) -> JobOwner | None:
    """The owner of the job; None: the daemons' user or root."""
    text = _first(_trail_of(job), OWNER_SOURCE)
    if text is None:
        return None
    match = _OWNER.fullmatch(text)
    return JobOwner(int(match[1]), match[2]) if match else JobOwner(NO_UID, "")


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
