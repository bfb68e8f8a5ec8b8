"""What the records of a key mean, and what a call does with it.

Theory. A key has some of these records in the folder of commands, each made whole and in one step:

* *accepted*: noded has taken a start; durable before a runner is asked for;
* *begun*: in the lock file, whose lock the runner and the supervisor of the command hold as long as any process of it
  may live. The runner writes it under the lock, before anything is executed, and never twice;
* *end*: the outcome; durable before anybody hears it, and before the lock is free;
* *void*, *forgotten*: notes; nothing of this key is started any more.

A runner begins only if it has the lock, the key is accepted, and it finds none of the other records. So two starts
are one, however many runners are made for them, and whoever dies. Only noded decides otherwise about a key that has
not begun, and it does so under the same lock.

The lock does not survive the machine, the records do. What was accepted in an earlier life of the machine (another
*boot*) and has no end is lost: that it has not begun cannot be proved, since that record was never forced to the disk.

The records are read in the order *begun*, the lock, *end*, the others. It had begun before the lock was seen to be
free, so whoever began is dead; and the end, looked for after that, will never come.

Source: DESIGN section 13.
"""

import enum
from typing import assert_never

import attrs

from protocol.noded.commands import CommandPhase


@attrs.frozen(kw_only=True)
class AcceptedStart:
    """A start that was taken."""

    # of the command
    digest: str
    # life of the machine, as the kernel names it
    boot: str


@attrs.frozen(kw_only=True)
class Records:
    """The records of a key, read in the order that the theory above demands."""

    has_begun: bool = False
    # whether a process holds the lock; also if that cannot be told
    is_held: bool = False
    accepted: AcceptedStart | None = None
    has_end: bool = False
    # whether the end says that none of its processes was left
    is_over: bool = False
    is_void: bool = False
    is_forgotten: bool = False


class Start(enum.Enum):
    """What a start does."""

    # nothing: the phase is the reply
    TELL = "tell"
    # make it durable, then ask for a runner
    ACCEPT = "accept"
    # ask for a runner: a start was taken, and its runner never began
    LAUNCH = "launch"
    # look again when the lock is free, or it has begun: a runner is about to begin
    AWAIT = "await"
    # the key is known with another command
    REFUSE = "refuse"


class Stop(enum.Enum):
    """What a stop does."""

    TELL = "tell"
    # make the key void, under its lock
    VOID = "void"
    # ask the runner to end
    SIGNAL = "signal"


def phase_of(records: Records, boot: str) -> CommandPhase:
    """The phase of a key. Args: boot: the present life of the machine."""
    if records.is_forgotten:
        return CommandPhase.UNKNOWN
    if records.is_void:
        return CommandPhase.VOID
    if records.has_end:
        return CommandPhase.KEPT if records.is_held and not records.is_over else CommandPhase.ENDED
    if records.accepted is None:
        return CommandPhase.UNKNOWN
    if records.is_held or not _is_lost(records, boot):
        return CommandPhase.RUNNING
    return CommandPhase.LOST


def on_start(records: Records, boot: str, digest: str) -> Start:
    """Args: digest: of the command that is to be started."""
    accepted = records.accepted
    if records.is_forgotten or records.is_void:
        return Start.TELL
    if accepted is not None and accepted.digest != digest:
        return Start.REFUSE
    phase = phase_of(records, boot)
    if phase is CommandPhase.UNKNOWN:
        return Start.ACCEPT
    if phase is not CommandPhase.RUNNING or records.has_begun:
        return Start.TELL
    return Start.AWAIT if records.is_held else Start.LAUNCH


def on_stop(records: Records, boot: str) -> Stop:
    if records.is_forgotten:
        return Stop.TELL
    match phase_of(records, boot):
        case CommandPhase.UNKNOWN:
            return Stop.VOID
        case CommandPhase.RUNNING:
            return Stop.SIGNAL if records.has_begun else Stop.VOID
        case CommandPhase.KEPT:
            return Stop.SIGNAL
        case CommandPhase.ENDED | CommandPhase.LOST | CommandPhase.VOID:
            return Stop.TELL
        case never:
            assert_never(never)


def may_be_forgotten(records: Records, boot: str) -> bool:
    """Whether the records can be replaced by a note: nothing of it lives, or will."""
    if records.is_forgotten or (records.is_held and not records.is_over):
        return False
    return phase_of(records, boot) in (CommandPhase.ENDED, CommandPhase.LOST, CommandPhase.VOID)


def may_begin(records: Records, boot: str, digest: str) -> bool:
    """Whether a runner that holds the lock begins; it calls this under the lock. Args: digest: of its command."""
    is_settled = records.is_forgotten or records.is_void or records.has_begun or records.has_end
    return records.accepted == AcceptedStart(digest=digest, boot=boot) and not is_settled


def _is_lost(records: Records, boot: str) -> bool:
    """Whether it may have begun, given that its lock is free."""
    accepted = records.accepted
    return records.has_begun or (accepted is not None and accepted.boot != boot)
