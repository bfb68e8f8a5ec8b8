"""The fork server of noded: a process with everything imported, which forks a runner for each command.

Theory. As with the job processes: to fork a warm process takes two milliseconds, to start an interpreter a tenth of a
second. noded starts this program with its first command; a node without commands pays nothing. It is one thread and
keeps no state: what has begun is in the records. It ends with noded, and no runner ends with it.

Source: DESIGN section 13; daemons.noded.commands.runnermessages.
"""

import argparse
import contextlib
import gc
import os
import selectors
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import setproctitle

from common.commands.cgroups import GroupTree, find_groups
from common.commands.limits import sweep_limit_groups
from common.commands.spec import CommandOutcome, CommandSpec
from common.commands.surroundings import take_surroundings
from common.errors import GantryError
from common.installation import UMASK
from common.settings import Settings
from common.settingsfile import ROOT_VARIABLE, load_settings
from common.system.log import get_log, rename_program, reopen_log, set_up_logging
from common.system.signals import HANDLED, ProcessSignals
from common.wire import unstructure
from daemons.noded.commands.commandrecords import BegunRecord, EndRecord
from daemons.noded.commands.rehearsing import rehearse
from daemons.noded.commands.runner import Runner
from daemons.noded.commands.runnermessages import (
    RunnerOrder,
    RunnerWord,
    Verdict,
    pack_order,
    pack_word,
    read_order,
    read_word,
)
from protocol.framing import Framer

_CHUNK: Final = 2**20
# an order is smaller than the request that brought it
_MOST: Final = 64 * 2**20
_log: Final = get_log(__name__)


class ForkingServer:
    """The loop: orders in, forks, ends of runners out.

    Args: control: stream of orders. reports: writing end of the pipe for words.
    """

    def __init__(self, settings: Settings, control: socket.socket, reports: int, groups: GroupTree | None) -> None:
        self._settings = settings
        self._control = control
        self._reports = reports
        self._groups = groups
        self._framer = Framer(_MOST)
        self._signals = ProcessSignals()
        # pid -> number of the order, of the runners that have not ended
        self._runners: dict[int, int] = {}

    def serve(self) -> None:
        """Serve until noded has gone, or SIGTERM."""
        self._signals.install()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._signals.fileno(), selectors.EVENT_READ)
            while not self._signals.cancel_asked:
                ready = {key.fileobj for key, _ in selector.select()}
                self._signals.drain()
                self._reap()
                if self._signals.hup_came:
                    self._signals.hup_came = False
                    reopen_log()
                if self._control in ready and not self._take_orders():
                    return

    def _take_orders(self) -> bool:
        """Fork for the orders that have come; false: noded has gone."""
        data = self._control.recv(_CHUNK)
        for payload in self._framer.feed(data):
            self._fork(read_order(payload))
        return bool(data)

    def _fork(self, order: RunnerOrder) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                self._live_and_exit(order)
        except OSError as error:
            reason = f"no process for it: {(error.strerror or str(error)).lower()}"
            _log.warning("command.not_forked", command=order.key, reason=reason)
            self._say(RunnerWord(number=order.number, word=Verdict.REFUSED, reason=reason))
        else:
            self._runners[pid] = order.number
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _live_and_exit(self, order: RunnerOrder) -> None:
        """Run the child. Never returns, so that no code of the parent runs in it."""
        code = 1
        try:
            self._control.close()
            self._signals.begin_anew()
            os.setsid()
            rename_program("command")
            setproctitle.setproctitle(f"gantry-command {order.key}")
            runner = Runner(order, self._settings, self._signals, self._groups, self._reports)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            code = runner.live()
        except BaseException:
            with contextlib.suppress(BaseException):
                _log.exception("runner.crashed", command=order.key)
        finally:
            os._exit(code)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                if (number := self._runners.pop(pid, None)) is not None:
                    self._say(RunnerWord(number=number, word=Verdict.ENDED))

    def _say(self, word: RunnerWord) -> None:
        # without noded the loop ends by itself
        with contextlib.suppress(OSError):
            os.write(self._reports, pack_word(word))


def _warm_up() -> None:
    """Use once what each runner uses: what is made at the first use is then shared by all."""
    spec = CommandSpec(argv=("true",))
    unstructure(read_order(pack_order(RunnerOrder(number=1, key="1.0.1", digest="", spec=spec))))
    read_word(pack_word(RunnerWord(number=1, word=Verdict.TOLD)))
    unstructure(EndRecord(outcome=CommandOutcome(exit_code=0), is_over=True))
    unstructure(BegunRecord())
    # its first call is the expensive one
    setproctitle.getproctitle()


def main(argv: Sequence[str] | None = None) -> None:
    """The program; noded starts it."""
    parser = argparse.ArgumentParser("noded's fork server")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--reports", type=int, required=True)
    given = parser.parse_args(argv)
    # until the loop runs, signals wait
    signal.pthread_sigmask(signal.SIG_SETMASK, HANDLED)
    os.umask(UMASK)
    settings = load_settings(given.root)
    set_up_logging("noded-commands", path=settings.paths.log_file("noded"))
    take_surroundings()
    if given.root is not None:
        # commands find the installation that they belong to
        os.environ[ROOT_VARIABLE] = os.path.abspath(given.root)
    control = socket.socket(fileno=given.control)
    for fd in (given.control, given.reports):
        os.set_inheritable(fd, False)
    try:
        groups = find_groups(settings.jobproc.cgroups, settings.paths.run)
        sweep_limit_groups(settings.paths.run)
        if groups is not None:
            groups.sweep()
        _warm_up()
        rehearse(settings)
        setproctitle.setproctitle("gantry-noded: commands")
        gc.collect()
        gc.freeze()
        _log.info("commands.ready", pid=os.getpid(), held_by=groups.way.value if groups else "descendants")
        ForkingServer(settings, control, given.reports, groups).serve()
    except (GantryError, OSError) as error:
        _log.error("commands.failed", reason=error)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
