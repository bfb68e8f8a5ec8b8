"""The fork server of noded, a process with everything imported, and the runner that it forks for each command.

Theory. As with the job processes: to fork a warm process takes two milliseconds, to start an interpreter a tenth of a
second. noded starts this program with its first command; a node without commands pays nothing. It is one thread and
keeps no state: what has begun is in the records. It ends with noded, and no runner ends with it.

Source: DESIGN section 13; daemons.noded.commands.runnermessages.
"""

import argparse
import contextlib
import errno
import gc
import logging
import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import setproctitle

from common.commands.cgroups import GroupTree, node_group_name, take_groups
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.output import OutputFile, OutputSink
from common.commands.spec import CommandOutcome, CommandSpec
from common.commands.supervisor import KeptProcesses
from common.commands.surroundings import take_surroundings
from common.durable.atomicfile import write_files
from common.durable.durably import durably
from common.errors import DamagedFile, GantryError, PrerequisiteError, reason_of
from common.installation import UMASK
from common.jsontext import ascii_json
from common.paths import Paths
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.livelock import Livelock
from common.system.log import get_log, rename_program, reopen_log, set_up_logging
from common.system.processes import Process, boot_id, find_process, holders, is_living, send, send_all
from common.system.shortages import retry_pauses
from common.system.signals import HANDLED, ProcessSignals
from common.wire import unstructure
from daemons.noded.commands.commandrecords import (
    END,
    ERRORS,
    LIVE,
    OUTPUT,
    START,
    BegunRecord,
    CommandRecords,
    EndRecord,
    StartRecord,
)
from daemons.noded.commands.runnermessages import (
    OrderResult,
    RunnerOrder,
    RunnerWord,
    pack_order,
    pack_word,
    read_order,
    read_word,
)
from daemons.noded.core.commandphases import may_begin
from protocol.framing import Framer
from protocol.launched import End, running_commands
from protocol.noded.statefiles import job_of_key

# A runner: the process that runs one command on this node, and keeps what comes of it.
#
# Theory. It is a fork of noded's fork server, and lives on when noded or the fork server ends. It takes the command's
# lock, looks whether it may begin, says so in the lock file, and runs the command as a job process runs a local one.
# The lock is lent to the supervisor of the command, so it is held as long as any process of the command lives. Output
# goes to files as it comes. The outcome is durable before the lock is free; while the disk refuses it, the runner tries
# again.
#
# SIGTERM asks for the end of the command: all its processes get SIGTERM, and SIGKILL after its grace time.
#
# Source: DESIGN sections 13 and 16.


# tries to get a lock that noded looks at just now, and seconds between them
_TRIES: Final = 20
_PAUSE_S: Final = 0.005


class Runner:
    """The life of a runner, in the forked child.

    Args:
        reports: descriptor of the pipe for its word; closed with it.
        signals: of this process, installed.
        groups: tree for the control groups of commands; None: no control groups here.
    """

    def __init__(
        self,
        order: RunnerOrder,
        settings: Settings,
        signals: ProcessSignals,
        groups: GroupTree | None,
        reports: int,
    ) -> None:
        self._order = order
        self._settings = settings
        self._signals = signals
        self._groups = groups
        self._reports = reports
        self._records = CommandRecords(settings.paths.node_commands)
        self._outputs: list[OutputSink] = []
        self._livelock: Livelock | None = None
        # every SIGTERM means the end
        signals.is_kill = _always

    def live(self) -> int:
        """Run the command to its end; return the exit code."""
        try:
            livelock = self._livelock = self._take_lock()
            if livelock is None:
                self._say(OrderResult.LEFT)
                return 0
            begun = self._begin(livelock)
        except (OSError, DamagedFile) as error:
            reason = reason_of(error) if isinstance(error, OSError) else error.message
            _log.error("command.not_begun", command=self._order.key, reason=reason)
            self._say(OrderResult.REFUSED, reason)
            return 1
        if begun is None:
            self._say(OrderResult.LEFT)
            return 0
        self._run(livelock, begun)
        return 0

    def free_lock(self) -> None:
        """Remove the lock, as nobody else needs it; else the end of the process frees it, and the file stays."""
        if self._livelock is not None:
            self._livelock.remove()

    def _take_lock(self) -> Livelock | None:
        path = self._records.path(self._order.key, LIVE)
        for _ in range(_TRIES):
            if (livelock := Livelock.take(path)) is not None:
                return livelock
            # a probe of noded lasts some microseconds, and no event tells its end
            time.sleep(_PAUSE_S)
        return None

    def _begin(self, livelock: Livelock) -> BegunRecord | None:
        """Write that the command begins; None: the records forbid it.

        Raises: OSError, DamagedFile: it has not begun.
        """
        found = self._records.read_under_lock(self._order.key, os.pread(livelock.fd, 1, 0) != b"")
        if not may_begin(found.records, boot_id(), self._order.digest):
            if found.start is None:
                # its key was forgotten, and the lock file made anew
                livelock.remove()
            return None
        own = find_process(os.getpid())
        begun = BegunRecord(pid=os.getpid(), started_at=own.started_at if own else 0, at=time.time())
        content = ascii_json(unstructure(begun))
        try:
            if os.pwrite(livelock.fd, content, 0) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(livelock.fd, 0)
            raise
        return begun

    def _run(self, livelock: Livelock, begun: BegunRecord) -> None:
        key = self._order.key
        command = LocalCommand(self._order.spec, self._place(livelock))
        _log.info("command.begun", command=key, job=job_of_key(key), pid=os.getpid())
        outcome = self._outcome(command)
        for output in self._outputs:
            output.close()
        self._keep_end(EndRecord(outcome=outcome, is_over=command.left is None, begun_at=begun.at))
        # the program could not be executed
        self._say(OrderResult.TOLD)
        _log.info("command.ended", command=key, job=job_of_key(key), kept=command.left is not None)
        if command.left is not None:
            self._await_left_processes(command.left)

    def _outcome(self, command: LocalCommand) -> CommandOutcome:
        output, errors = self._stream(OUTPUT), self._stream(ERRORS)
        if self._signals.kill_asked:
            return CommandOutcome(not_begun="it was stopped before it had begun", was_killed=True)
        try:
            command.check()
            outcome = command.run(output.take, errors.take, lambda: self._say(OrderResult.TOLD))
        except PrerequisiteError as error:
            outcome = CommandOutcome(not_begun=error.message)
        if outcome.not_begun is None:
            return outcome
        return attrs.evolve(outcome, not_begun=f"node '{self._settings.cluster.own_name}': {outcome.not_begun}")

    def _place(self, livelock: Livelock) -> CommandPlace:
        key = self._order.key
        if self._order.spec.user is not None:
            # imported late: most commands run as the daemons' user
            from protocol.launcher import find_launcher
        return CommandPlace(
            settings=self._settings,
            signals=self._signals,
            livelock=livelock,
            launcher=find_launcher(self._settings.paths.launcher_socket) if self._order.spec.user is not None else None,
            groups=self._groups,
            group_name=node_group_name(key),
            job_id=job_of_key(key),
            title=f"gantry-command {key} supervisor",
        )

    def _stream(self, name: str) -> OutputSink:
        base, most = self._records.stream(self._order.key, name), self._settings.jobproc.output_max_bytes
        # the master keeps the times, by its own clock
        sink = OutputSink(OutputFile(base, most, makes_folder=True, now=None))
        self._outputs.append(sink)
        return sink

    def _keep_end(self, end: EndRecord) -> None:
        """Make the end durable, however long that takes: until then the command counts as running."""
        pauses = retry_pauses()
        write = self._records.write(self._order.key, END, end)
        while True:
            try:
                durably(lambda: write_files([write]))
                return
            except OSError as error:
                if self._records.is_gone():
                    # nobody can ask for the command any more
                    _log.error("outcome.dropped", command=self._order.key, reason="the installation was removed")
                    return
                retry_s = next(pauses)
                _log.error("outcome.not_written", command=self._order.key, reason=reason_of(error), retry_s=retry_s)
                # the disk has no event for this
                self._signals.wait(retry_s)

    def _await_left_processes(self, left: KeptProcesses) -> None:
        """Stay while processes of the command live: a stop is passed on to them."""
        is_stopped = False
        while not left.is_gone:
            if self._signals.kill_asked and not is_stopped:
                is_stopped = True
                left.stop()
            left.wait()
        left.close()

    def _say(self, word: OrderResult, reason: str = "") -> None:
        """Say the word to noded, once; it may be dead."""
        if self._reports < 0:
            return
        with contextlib.suppress(OSError):
            os.write(self._reports, pack_word(RunnerWord(number=self._order.number, word=word, reason=reason)))
        os.close(self._reports)
        self._reports = -1


def _always() -> bool:
    return True


# A rehearsal: the fork server runs a command itself, a few times, before it forks the first runner.
#
# Theory. As with the job processes: what is made when code runs for the first time (specialized instructions, caches,
# converters) each runner and each supervisor would make again, on pages of memory that they then no longer share. Made
# here it is shared: a runner and its supervisor together need a third less.
#
# The command runs on a scratch folder, without a control group. Nothing remains of it but memory; and this process
# adopts the orphans of its runners from then on, which it only reaps.


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


# The fork server.


_CHUNK: Final = 2**20
# an order is smaller than the request that brought it
_MOST: Final = 64 * 2**20


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
            reason = f"no process for it: {reason_of(error)}"
            _log.warning("command.not_forked", command=order.key, reason=reason)
            self._say(RunnerWord(number=order.number, word=OrderResult.REFUSED, reason=reason))
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
                    self._say(RunnerWord(number=number, word=OrderResult.ENDED))

    def _say(self, word: RunnerWord) -> None:
        # without noded the loop ends by itself
        with contextlib.suppress(OSError):
            os.write(self._reports, pack_word(word))


def _warm_up() -> None:
    """Use once what each runner uses: what is made at the first use is then shared by all."""
    spec = CommandSpec(argv=("true",))
    unstructure(read_order(pack_order(RunnerOrder(number=1, key="1.0.1", digest="", spec=spec))))
    read_word(pack_word(RunnerWord(number=1, word=OrderResult.TOLD)))
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
    control = socket.socket(fileno=given.control)
    for fd in (given.control, given.reports):
        os.set_inheritable(fd, False)
    try:
        groups = take_groups(settings.jobproc.cgroups, settings.paths.run)
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


# The signal by which a command is asked to end.


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
