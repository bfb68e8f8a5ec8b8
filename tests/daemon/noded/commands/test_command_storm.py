"""noded and its fork server are killed again and again while callers start commands, follow and stop them.

Nothing begins twice, every word of the node holds, output is whole (DESIGN section 13).
"""

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from http.client import HTTPException
from typing import TypeVar

import pytest

from protocol.noded.commands import CommandPhase
from tests.support.machines.nodecommands import CommandsOf, Ended, fork_servers, shell
from tests.support.machines.nodes import Node

T = TypeVar("T")
CALLERS = 8
KILLS = 4


class Caller:
    """A job process: it repeats each call until it has a reply. Args: is_killed: whether it stops its command."""

    def __init__(self, node: Node, number: int, *, is_killed: bool) -> None:
        self.node = node
        self.key = f"{number}.0.1"
        self.tally = node.root / f"tally-{number}"
        self.is_killed = is_killed
        self.ended: Ended | None = None
        self._pause_s = number % 10 / 10
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        commands = CommandsOf(self.node)
        script = f"echo begun >> {self.tally}; echo one; sleep {self._pause_s}; echo two; echo ended >> {self.tally}"
        repeat(lambda: commands.start(shell(script), self.key))
        if self.is_killed:
            repeat(lambda: commands.stop(self.key))
        self.ended = repeat(lambda: commands.end_of(self.key))


def repeat(call: Callable[[], T]) -> T:
    """Call until there is a reply; a node that is just starting refuses connections."""
    while True:
        with contextlib.suppress(OSError, HTTPException):
            return call()


# a node killed between connection and handshake: ssl leaves the socket that it could not wrap to the collector
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_whatever_is_killed_each_command_begins_once_and_each_word_holds(own: Node) -> None:
    dice = random.Random(7)
    callers = [Caller(own, number, is_killed=number % 4 == 3) for number in range(CALLERS)]
    for _ in range(KILLS):
        if dice.random() < 0.4 and (servers := fork_servers(own)):
            os.kill(servers[0], signal.SIGKILL)
        else:
            own.kill()
            own.start()
    for caller in callers:
        caller.join()

    for caller in callers:
        assert caller.ended is not None
        phase, outcome = caller.ended.state.phase, caller.ended.state.outcome
        lines = caller.tally.read_text().split() if caller.tally.exists() else []
        assert lines.count("begun") <= 1
        if caller.is_killed:
            assert phase in (CommandPhase.ENDED, CommandPhase.VOID)
            assert phase is not CommandPhase.VOID or not lines
        else:
            assert (phase, lines, caller.ended.output) == (CommandPhase.ENDED, ["begun", "ended"], b"one\ntwo\n")
            assert outcome is not None
            assert outcome.exit_code == 0
