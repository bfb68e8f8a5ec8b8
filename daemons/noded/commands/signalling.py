"""The signal by which a command is asked to end."""

import os
import signal
from pathlib import Path
from typing import Final

from common.system.log import get_log
from common.system.processes import Process, holders, is_living, send, send_all
from daemons.noded.commands.commandrecords import LIVE, CommandRecords
from protocol.launched import End, running_commands

_log: Final = get_log(__name__)


def signal_runner(records: CommandRecords, key: str, launcher: Path) -> None:
    """Ask the runner of a command to end it; its other records may be damaged. For threads.

    Args: launcher: socket of the launcher, if there is one.
    Raises: OSError.
    """
    begun = records.read_begun(key)
    runner = Process(begun.pid, begun.started_at) if begun and begun.pid else None
    _log.info("command.stopping", command=key, pid=runner.pid if runner else None)
    if runner is not None and is_living(runner):
        send(runner, signal.SIGTERM)
        return
    # the runner was killed: its supervisor takes the same signal
    livelock = records.path(key, LIVE)
    left = holders(str(livelock))
    send_all((each for each in left if each.pid != os.getpid()), signal.SIGTERM)
    running_commands(launcher, str(livelock), End.ASK)
