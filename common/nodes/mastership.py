"""Who is the master, as a node keeps it: epochs, and notes of its own mastership."""

import contextlib
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import write_file
from common.errors import DamagedFile, InvalidRequest
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.settings import Settings

# Epochs: each new master has a number of its own, higher than those before, so that an old one is refused.
#
# Theory. Each node remembers the highest epoch that it has seen, and whose it is. A node becomes the master by claiming
# an epoch: `claimed` at its own node daemon and at all others that it reaches, before it does anything else as the
# master. So the file of a node tells it two things: which calls to refuse, and whether it may itself be the master. An
# old master that hears of a new epoch finds the name of the new master in its file, or none if it has only got calls of
# that epoch, but never its own: its daemons, started again, end at once and never use the number of the other. A
# cluster whose master was never moved has no epochs: the number is 0, which is nobody's, and the files of ssconf say
# who is the master.
#
# Source: DESIGN sections 12 and 14.


# an epoch is less
_END: Final = 2**63
_DIGITS: Final = len(str(_END))


@attrs.frozen
class SeenEpoch:
    """The highest epoch that a node has seen."""

    # 0: none
    number: int = 0
    # name of the node that has claimed it here; empty: nobody has, the number came with a call
    master: str = ""

    def is_of(self, node: str) -> bool:
        """Whether this node may be the master, as far as epochs tell."""
        return self.number == 0 or self.master == node

    def __str__(self) -> str:
        return f"{self.number} {self.master}".rstrip()


def read_seen(path: Path) -> SeenEpoch:
    """Return the epoch in this file; that of nobody if there is none. Raises: DamagedFile, OSError."""
    try:
        text = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return SeenEpoch()
    number, _, master = text.partition(" ")
    try:
        return SeenEpoch(parse_epoch(number), master.strip())
    except InvalidRequest:
        raise DamagedFile(
            f"'{path}' is not an epoch but {text!r:.40}; write the highest epoch that any node has into it",
            file=str(path),
        ) from None


def own_epoch(path: Path, node: str) -> int:
    """Return the epoch of this node's mastership, with which it calls the others; 0: it has none, and needs none.

    Raises: NoLongerMaster: another node has become the master since. DamagedFile, OSError.
    """
    seen = read_seen(path)
    if seen.is_of(node):
        return seen.number
    raise NoLongerMaster(f"this node is not the master; {newer_master(seen)}")


def newer_master(seen: SeenEpoch) -> str:
    """Who is the master instead of this node, for a message."""
    return f"{seen.master or 'another node'} has become it since, with epoch {seen.number}"


def parse_epoch(text: str) -> int:
    """Raises: InvalidRequest: the text is not a whole number from 0 to 2^63 - 1."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) < _END:
        return int(text)
    raise InvalidRequest(f"an epoch is a whole number from 0 to {_END - 1}, got {text!r:.40}")


# Notes of this node about its mastership, in the folder that does not survive a restart of the machine.
#
# Theory. A daemon that finds that another node is the master says so in a note and ends; the supervisor and `gantry
# status` repeat it. The note is gone when a daemon of the master has begun its work here.
#
# An operator may let a master run without the votes of the other nodes, which may be dead. That holds for the
# mastership of this epoch, and for each start of its daemons, whoever starts them.
#
# Source: masterfailover.md 2 and 3.


_MODE: Final = 0o644


def note_not_master(paths: Paths, text: str) -> None:
    """Note why the daemons of the master do not run here. Raises: OSError."""
    write_file(paths.not_master_note, f"{text}\n".encode(), mode=_MODE)


def read_not_master(paths: Paths) -> str | None:
    """The noted text; None: there is none, or this user may not read it."""
    with contextlib.suppress(OSError):
        return paths.not_master_note.read_text("utf-8", "replace").strip()
    return None


def forget_not_master(paths: Paths) -> None:
    """Raises: OSError."""
    paths.not_master_note.unlink(missing_ok=True)


def allow_no_voting(settings: Settings) -> None:
    """Let this node be the master without a vote, as long as no other one is.

    Raises: NoLongerMaster: another one is. DamagedFile, OSError.
    """
    epoch = own_epoch(settings.paths.epoch_file, settings.cluster.own_name)
    write_file(settings.paths.no_voting_note, f"{epoch}\n".encode(), mode=_MODE)


def needs_no_vote(path: Path, epoch: int) -> bool:
    """Whether this mastership was allowed to run without a vote."""
    try:
        return path.exists() and read_seen(path).number == epoch
    except (DamagedFile, OSError):
        return False
