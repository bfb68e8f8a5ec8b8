"""A rehearsal: the fork server runs a command itself, a few times, before it forks the first runner.

Theory. As with the job processes: what is made when code runs for the first time (specialized instructions, caches,
converters) each runner and each supervisor would make again, on pages of memory that they then no longer share. Made
here it is shared: a runner and its supervisor together need a third less.

The command runs on a scratch folder, without a control group. Nothing remains of it but memory; and this process adopts
the orphans of its runners from then on, which it only reaps.
"""

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import attrs

from common.commands.spec import CommandSpec
from common.durable.atomicfile import write_files
from common.errors import GantryError
from common.paths import Paths
from common.settings import Settings
from common.system.log import get_log
from common.system.signals import ProcessSignals
from daemons.noded.commands.commandrecords import START, CommandRecords, StartRecord, boot_id
from daemons.noded.commands.runner import Runner
from daemons.noded.commands.runnermessages import RunnerOrder

# the interpreter specializes instructions after eight calls
ROUNDS: Final = 10
_PREFIX: Final = "command-rehearsal-"
_DIGEST: Final = "rehearsal"
_SPEC: Final = CommandSpec(argv=("echo", "rehearsal"))
_log: Final = get_log(__name__)


def rehearse(settings: Settings) -> int:
    """Run the command `ROUNDS` times; nothing is logged meanwhile.

    Returns: how many of them have ended well; fewer: the rehearsal failed, and runners need more memory.
    """
    for left in settings.paths.run.glob(f"{_PREFIX}*"):
        # of a fork server that was killed in its rehearsal
        shutil.rmtree(left, ignore_errors=True)
    signals = ProcessSignals()
    logging.disable()
    done = 0
    try:
        signals.install()
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=settings.paths.run) as scratch:
            paths = Paths.under_root(Path(scratch))
            paths.make_folders()
            for number in range(ROUNDS):
                done += _run(attrs.evolve(settings, paths=paths), signals, f"{number}.0.1")
    except (GantryError, OSError) as error:
        logging.disable(logging.NOTSET)
        _log.warning("rehearsal.failed", reason=error, effect="commands need more memory")
    finally:
        logging.disable(logging.NOTSET)
        signals.close()
    return done


def _run(settings: Settings, signals: ProcessSignals, key: str) -> bool:
    """Whether the command has ended well. Raises: OSError, DamagedFile."""
    records = CommandRecords(settings.paths.node_commands)
    records.make_folders()
    write_files([records.write(key, START, StartRecord(digest=_DIGEST, boot=boot_id()))])
    order = RunnerOrder(number=0, key=key, digest=_DIGEST, spec=_SPEC)
    runner = Runner(order, settings, signals, None, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
    try:
        runner.live()
        end = records.read_under_lock(key, has_begun=True).end
        return end is not None and end.outcome.exit_code == 0
    finally:
        runner.free_lock()
