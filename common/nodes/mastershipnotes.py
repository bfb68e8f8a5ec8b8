"""Notes of this node about its mastership, in the folder that does not survive a restart of the machine.

Theory. A daemon that finds that another node is the master says so in a note and ends; the supervisor and `gantry
status` repeat it. The note is gone when a daemon of the master has begun its work here.

An operator may let a master run without the votes of the other nodes, which may be dead. That holds for the mastership
of this epoch, and for each start of its daemons, whoever starts them.

Source: masterfailover.md 2 and 3.
"""

import contextlib
from pathlib import Path
from typing import Final

from common.durable.atomicfile import write_file
from common.errors import DamagedFile
from common.nodes.epochs import own_epoch, read_seen
from common.paths import Paths
from common.settings import Settings

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
