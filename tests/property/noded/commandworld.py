"""A node in memory: the records of one key, and processes that read and change them step by step, and may die.

Each process is a generator; between two of its steps anything may happen. The steps are those of
`daemons.noded.commands` (`nodecommands`, `runner`, `commandrecords`); what they decide is asked of the real core.
"""

from collections.abc import Callable, Generator

import attrs

from daemons.noded.core.commandphases import (
    AcceptedStart,
    Records,
    Start,
    Stop,
    may_be_forgotten,
    may_begin,
    on_start,
    on_stop,
    phase_of,
)
from protocol.noded.commands import CommandPhase

Steps = Generator[None, None, None]


@attrs.define
class Files:
    """The files of the key."""

    start: AcceptedStart | None = None
    has_begun: bool = False
    # None: there is none; else whether it is over
    end: bool | None = None
    is_void: bool = False
    is_forgotten: bool = False


@attrs.define(eq=False)
class Program:
    """The command, and whoever has the key's lock because of it."""

    digest: str
    is_running: bool = True
    # whether its runner lives
    has_runner: bool = True


class World:
    """Args: told: is called with each reply: the verb, and the phase."""

    def __init__(self, told: Callable[[str, CommandPhase], None]) -> None:
        self._told = told
        self.boot = 1
        # what all processes see, and what a loss of power leaves
        self.files, self.durable = Files(), Files()
        self.holder: object | None = None
        self.programs: list[Program] = []
        # calls of noded, orders in the socket of the fork server, runners that live
        self.calls: list[Steps] = []
        self.orders: list[str] = []
        self.runners: list[Steps] = []

    # noded

    def start(self, digest: str) -> Steps:
        while True:
            records = yield from self._read()
            match on_start(records, self._boot, digest):
                case Start.TELL:
                    self._told("start", phase_of(records, self._boot))
                    return
                case Start.REFUSE:
                    return
                case Start.ACCEPT:
                    self._write(start=AcceptedStart(digest=digest, boot=self._boot))
                    yield
                    self.orders.append(digest)
                case Start.LAUNCH:
                    self.orders.append(digest)
                case Start.AWAIT:
                    pass
            yield

    def stop(self) -> Steps:
        while True:
            records = yield from self._read()
            match on_stop(records, self._boot):
                case Stop.TELL | Stop.SIGNAL:
                    self._told("stop", phase_of(records, self._boot))
                    return
                case Stop.VOID:
                    if (yield from self._void()):
                        self._told("stop", CommandPhase.VOID)
                        return
            yield

    def forget(self) -> Steps:
        records = yield from self._read()
        if not may_be_forgotten(records, self._boot):
            return
        # a rename, which takes a record away and makes the note
        if self.files.end is not None:
            self.files.end = None
        elif self.files.is_void:
            self.files.is_void = False
        elif self.files.start is not None:
            self.files.start = None
        else:
            return
        self.files.is_forgotten = True
        yield
        self.files.start = None
        yield
        self.files.is_void, self.files.end = False, None
        yield
        self.files.has_begun = False

    def follow(self) -> Steps:
        records = yield from self._read()
        self._told("follow", phase_of(records, self._boot))

    def _read(self) -> Generator[None, None, Records]:
        """Read in the order of `CommandRecords.read`; returns the records."""
        has_begun = self.files.has_begun
        yield
        is_held = self.holder is not None
        yield
        end = self.files.end
        yield
        start = self.files.start
        yield
        is_void = self.files.is_void
        yield
        return Records(
            is_held=is_held,
            accepted=start,
            has_begun=has_begun,
            has_end=end is not None,
            is_over=bool(end),
            is_void=is_void,
            is_forgotten=self.files.is_forgotten,
        )

    def _void(self) -> Generator[None, None, bool]:
        if self.holder is not None:
            return False
        me = self.holder = object()
        try:
            yield
            if self.files.has_begun:
                return False
            yield
            self._write(is_void=True)
            yield
            return True
        finally:
            if self.holder is me:
                self.holder = None

    @property
    def _boot(self) -> str:
        return str(self.boot)

    # the runner

    def fork(self) -> None:
        """The fork server takes the next order, if there is one."""
        if not self.orders:
            return
        self.runners.append(self._live(self.orders.pop(0)))

    def _live(self, digest: str) -> Steps:
        yield
        if self.holder is not None:
            return
        program = Program(digest, is_running=False)
        self.holder = program
        try:
            records = yield from self._read()
            if not may_begin(attrs.evolve(records, is_held=True), self._boot, digest):
                return
            yield
            self.files.has_begun = True
            yield
            program.is_running = True
            self.programs.append(program)
            while program.is_running:
                yield
            self._write(end=True)
            yield
        finally:
            program.has_runner = False
            # its supervisor holds the lock as long as anything of the command lives
            if self.holder is program and not program.is_running:
                self.holder = None

    # deaths

    def kill_noded(self) -> None:
        for call in self.calls:
            call.close()
        self.calls.clear()

    def kill_fork_server(self) -> None:
        self.orders.clear()

    def kill_runner(self, number: int) -> None:
        """Args: number: any; without a runner nothing happens."""
        if self.runners:
            self.runners.pop(number % len(self.runners)).close()

    def end_program(self, program: Program) -> None:
        program.is_running = False
        if not program.has_runner and self.holder is program:
            self.holder = None

    def lose_power(self) -> None:
        for program in self.programs:
            program.is_running = False
        self.kill_noded()
        self.kill_fork_server()
        while self.runners:
            self.kill_runner(0)
        self.holder = None
        self.boot += 1
        self.files = attrs.evolve(self.durable)

    def write_back(self) -> None:
        """The kernel writes what it has, as it does now and then."""
        self.durable = attrs.evolve(self.files)

    def _write(self, **files: object) -> None:
        """Make a record, durably."""
        for name, value in files.items():
            setattr(self.files, name, value)
            setattr(self.durable, name, value)
