"""What is removed of old commands: notes after a day, ended commands after some days.

Masters have ended commands removed themselves; this is for what they have forgotten, or could not ask for.
"""

import time
from typing import Final

from common.durable.atomicfile import remove_leftovers
from common.errors import DamagedFile
from common.system.log import get_log
from daemons.noded.commands.commandrecords import END, GONE, LIVE, START, VOID, CommandRecords
from daemons.noded.core.commandphases import may_be_forgotten

DAY_S: Final = 86_400.0
# age of a temporary file that nobody goes on writing
_LEFT_AFTER_S: Final = 3600.0
_log: Final = get_log(__name__)


def forget_ended(records: CommandRecords, key: str, boot: str) -> None:
    """Replace the records of a key by a note, if nothing of it lives, or will. Raises: OSError, DamagedFile."""
    if may_be_forgotten(records.read(key).records, boot):
        records.forget(key)


def sweep_key(records: CommandRecords, key: str, boot: str, keep_s: float) -> None:
    """Remove what is too old of a key; one with a damaged record stays as it is. Raises: OSError."""
    now = time.time()
    note_age_s = records.age_of(key, GONE, now)
    if note_age_s is not None:
        # forgetting it may have been cut off
        records.remove_all_but_the_note(key)
        if note_age_s > DAY_S:
            records.path(key, GONE).unlink(missing_ok=True)
        return
    ages = [age for kind in (END, VOID, START) if (age := records.age_of(key, kind, now)) is not None]
    if not ages:
        _sweep_lock(records, key, now, keep_s)
    elif min(ages) > keep_s:
        try:
            forget_ended(records, key, boot)
        except DamagedFile as error:
            _log.warning("command.not_forgotten", command=key, reason=error.message, effect="the others are")


def _sweep_lock(records: CommandRecords, key: str, now: float, keep_s: float) -> None:
    """Remove a lock file without records, left by a stop that was cut off."""
    age_s = records.age_of(key, LIVE, now)
    if age_s is not None and age_s > keep_s:
        with records.locked(key) as is_ours:
            if is_ours:
                records.path(key, LIVE).unlink()


def sweep_leftovers(records: CommandRecords) -> None:
    """Remove files that a process was writing when it was killed. Raises: OSError."""
    remove_leftovers(records.folder, lambda _: True, min_age_s=_LEFT_AFTER_S)
