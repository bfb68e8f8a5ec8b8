"""A runner: the process that runs one command on this node, and keeps what comes of it.

Theory. It is a fork of noded's fork server, and lives on when noded or the fork server ends. It takes the command's
lock, looks whether it may begin, says so in the lock file, and runs the command as a job process runs a local one. The
lock is lent to the supervisor of the command, so it is held as long as any process of the command lives. Output goes
to files as it comes. The outcome is durable before the lock is free; while the disk refuses it, the runner tries again.

SIGTERM asks for the end of the command: all its processes get SIGTERM, and SIGKILL after its grace time.

Source: DESIGN sections 13 and 16.
"""

import contextlib
import errno
import os
import time
from typing import Final

import attrs

from common.commands.cgroups import GroupTree, node_group_name
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.output import OutputFile, OutputSink
from common.commands.spec import CommandOutcome
from common.commands.supervisor import KeptProcesses
from common.durable.atomicfile import write_files
from common.durable.durably import durably
from common.errors import DamagedFile, PrerequisiteError, reason_of
from common.jsontext import ascii_json
from common.settings import Settings
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.processes import boot_id, find_process
from common.system.shortages import retry_pauses
from common.system.signals import ProcessSignals
from common.wire import unstructure
from daemons.noded.commands.commandrecords import (
    END,
    ERRORS,
    LIVE,
    OUTPUT,
    BegunRecord,
    CommandRecords,
    EndRecord,
)
from daemons.noded.commands.runnermessages import OrderResult, RunnerOrder, RunnerWord, pack_word
from daemons.noded.core.commandphases import may_begin
from protocol.noded.statefiles import job_of_key

# tries to get a lock that noded looks at just now, and seconds between them
_TRIES: Final = 20
_PAUSE_S: Final = 0.005
_log: Final = get_log(__name__)


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
