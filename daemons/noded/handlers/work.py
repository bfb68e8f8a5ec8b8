"""Work on this node: delays, hooks, the watcher's pause, and the commands of masters.

Source: noded.md 6; DESIGN section 13.
"""

import os
import re
from pathlib import Path
from typing import Final

import trio

from common.errors import InvalidRequest, Unavailable
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.noded.commands.nodecommands import NodeCommands
from daemons.noded.files.nodefiles import read_pause, write_pause
from protocol.noded.commands import (
    MOST_COMMANDS,
    CommandNews,
    CommandState,
    FollowCommand,
    ForgetCommands,
    GetWatcherPause,
    HookRun,
    HooksRunner,
    ListCommands,
    SetNodeWatcherPause,
    StartCommand,
    StopCommand,
    TestDelay,
)
from protocol.noded.statefiles import is_command_key

_HOOKS: Final = Path("/etc/ganeti/hooks")
_HOOK_NAME: Final = re.compile(r"[\w-]+", re.ASCII)


class WorkHandlers:
    """Args: hooks: the folder of hooks.

    Raises, of commands: InvalidRequest: no key, or a number out of range. OSError, DamagedFile: records cannot be read.
    """

    def __init__(self, paths: Paths, commands: NodeCommands, hooks: Path = _HOOKS) -> None:
        self._pause = paths.watcher_pause
        self._commands = commands
        self._hooks = hooks

    async def test_delay(self, call: TestDelay) -> None:
        """Raises: InvalidRequest: a negative duration."""
        if not call.duration >= 0:
            raise InvalidRequest(f"a delay is at least 0 seconds, got {call.duration:g}")
        await trio.sleep(call.duration)

    async def watcher_pause(self, _: GetWatcherPause) -> float | None:
        return await in_thread(read_pause, self._pause)

    async def set_watcher_pause(self, call: SetNodeWatcherPause) -> None:
        await in_thread(write_pause, self._pause, call.until)

    async def run_hooks(self, call: HooksRunner) -> tuple[HookRun, ...]:
        """A node without hooks has nothing to run. Raises: Unavailable: there are some, which would be passed over."""
        if not (_HOOK_NAME.fullmatch(call.hpath) and _HOOK_NAME.fullmatch(call.phase)):
            raise InvalidRequest(f"'{call.hpath}' in phase '{call.phase}' names no hooks")
        folder = self._hooks / f"{call.hpath}-{call.phase}.d"
        if await in_thread(_has_programs, folder):
            raise Unavailable(f"this node daemon does not run hooks, and there are some in '{folder}'")
        return ()

    async def start_command(self, call: StartCommand) -> CommandState:
        """Raises: Conflict: the key is known with another command. Unavailable: it was not started now."""
        _check_key(call.key)
        if not call.spec.argv:
            raise InvalidRequest("a command needs at least the name of its program")
        _check_counts(output_base=call.output_base, error_base=call.error_base)
        return await self._commands.start(call)

    async def follow_command(self, call: FollowCommand) -> CommandNews:
        _check_key(call.key)
        _check_counts(output_from=call.output_from, error_from=call.error_from, wait=call.wait)
        return await self._commands.follow(call)

    async def stop_command(self, call: StopCommand) -> CommandState:
        _check_key(call.key)
        return await self._commands.stop(call.key)

    async def forget_commands(self, call: ForgetCommands) -> None:
        if len(call.keys) > MOST_COMMANDS:
            raise InvalidRequest(f"{call.METHOD} takes at most {MOST_COMMANDS} keys, got {len(call.keys)}")
        for key in call.keys:
            _check_key(key)
        await self._commands.forget(call.keys)

    async def command_states(self, call: ListCommands) -> tuple[CommandState, ...]:
        return await self._commands.states(call.after)


def _has_programs(folder: Path) -> bool:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(os.access(folder / name, os.X_OK) for name in names)


def _check_key(key: str) -> None:
    if not is_command_key(key):
        raise InvalidRequest(f"{key[:80]!r} is no key of a command; it is JOB.OPCODE.TRY, such as 17.0.1")


def _check_counts(**counts: float) -> None:
    for name, value in counts.items():
        if not value >= 0:
            raise InvalidRequest(f"'{name}' is at least 0, got {value:g}")
