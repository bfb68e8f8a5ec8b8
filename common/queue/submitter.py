"""Who submitted a job, as its reason trail says it.

Two entries may say so. `gantry:owner` is luxid's: it takes the user from the socket, drops what a client sends under
that name, and writes the entry into the first opcode of each job that somebody else than the daemons' user (or root)
submitted. So it is durable with the job, in the same write, and goes with it; rights rest on it. `gantry:login` is what
our command line says of itself: good for finding one's own jobs, not for allowing anything.
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
# of an entry that cannot be read: no user has it
NO_UID: Final = -1


@attrs.frozen
class JobOwner:
    """The user whose job it is."""

    uid: int
    # "": he has none on this machine
    login: str

    @property
    def shown(self) -> str:
        return self.login or str(self.uid)


def submitter_entry(name: str, at_ns: int) -> ReasonEntry:
    """The entry by which a client names its user."""
    return ReasonEntry(SOURCE, name, at_ns)


def owner_entry(owner: JobOwner, at_ns: int) -> ReasonEntry:
    """The entry by which luxid names the owner."""
    return ReasonEntry(OWNER_SOURCE, f"uid={owner.uid};login={owner.login}", at_ns)


def without_owner(trail: ReasonTrail) -> ReasonTrail:
    """A trail as a client may send it."""
    if any(entry.source == OWNER_SOURCE for entry in trail):
        return tuple(entry for entry in trail if entry.source != OWNER_SOURCE)
    return trail


def owner_of(job: Job) -> JobOwner | None:
    """Whose job it is; None: the daemons' user's, or root's."""
    text = _first(_trail_of(job), OWNER_SOURCE)
    if text is None:
        return None
    match = _OWNER.fullmatch(text)
    return JobOwner(int(match[1]), match[2]) if match else JobOwner(NO_UID, "")


def submitter(job: Job) -> str:
    """The name of the user who submitted a job: its owner, else whom the client names; "" if nothing says it."""
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
