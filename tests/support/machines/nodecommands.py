"""Commands on a node, called as a master calls them."""

import http.client
import json
import time
from pathlib import Path
from typing import Any, Final

import attrs

from common.commands.spec import CommandSpec
from common.system.processes import descendants
from common.wire import structure
from protocol.noded.call import request_body
from protocol.noded.commands import (
    CommandNews,
    CommandPhase,
    CommandState,
    FollowCommand,
    ForgetCommands,
    ListCommands,
    StartCommand,
    StopCommand,
)
from tests.support.machines.nodes import Node
from tests.support.wait import PATIENCE_S

KEY: Final = "7.0.1"


def spec_of(*argv: str, **more: Any) -> CommandSpec:
    return CommandSpec(argv=argv, **{"grace_s": 1.0, **more})


def shell(script: str, **more: Any) -> CommandSpec:
    return spec_of(script, shell=True, **more)


def fork_servers(node: Node) -> list[int]:
    """The fork server of this node's commands, if it is there; a runner that begins has its name for a moment."""
    below = descendants(node.pid)
    children = below - descendants(*(process.pid for process in below))
    return [process.pid for process in children if "gantry-noded: commands" in title(process.pid)]


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        # it has ended
        return ""


class CommandsOf:
    """The commands of a node. Raises, all: Refused: the node refuses, with its reason."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def start(self, spec: CommandSpec, key: str = KEY, base: int = 0) -> CommandState:
        return structure(self._call(StartCommand(key, spec, base, 0)), CommandState)

    def send_start(self, connection: http.client.HTTPSConnection, spec: CommandSpec, key: str) -> None:
        """Send a start, and await no reply."""
        call = StartCommand(key, spec, 0, 0)
        connection.request("POST", f"/{call.METHOD}", request_body(call))

    def follow(
        self,
        key: str = KEY,
        output_from: int = 0,
        error_from: int = 0,
        known: CommandPhase = CommandPhase.RUNNING,
        wait: float = 0.0,
    ) -> CommandNews:
        return structure(self._call(FollowCommand(key, output_from, error_from, known, wait)), CommandNews)

    def stop(self, key: str = KEY) -> CommandState:
        return structure(self._call(StopCommand(key)), CommandState)

    def forget(self, *keys: str) -> None:
        self._call(ForgetCommands(keys or (KEY,)))

    def states(self, after: str = "") -> list[CommandState]:
        return [structure(row, CommandState) for row in self._call(ListCommands(after))]

    def phase(self, key: str = KEY) -> CommandPhase:
        return self.follow(key).state.phase

    def end_of(self, key: str = KEY) -> "Ended":
        """Follow a command until none of its processes lives."""
        output, errors = b"", b""
        deadline = time.monotonic() + PATIENCE_S
        phase, follows = CommandPhase.RUNNING, 0
        while time.monotonic() < deadline:
            follows += 1
            news = self.follow(key, len(output), len(errors), phase, wait=20)
            output += news.output.data
            errors += news.error.data
            phase = news.state.phase
            if not phase.may_run and len(output) == news.state.output_bytes:
                return Ended(news.state, output, errors, follows)
        raise AssertionError(f"command {key} has not ended: {news.state}")

    def _call(self, call: Any) -> Any:
        status, body = self.node.send(call.METHOD, request_body(call))
        assert status == 200, (status, body)
        is_done, payload = json.loads(body)
        if not is_done:
            raise Refused(payload)
        return payload


@attrs.frozen
class Ended:
    state: CommandState
    output: bytes
    errors: bytes
    # calls that it took to see the end
    follows: int


class Refused(Exception):
    """the node refuses"""
