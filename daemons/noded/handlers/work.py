"""Work on this node: delays, hooks, the watcher's pause.

Source: noded.md 6.
"""

import os
import re
from pathlib import Path
from typing import Final

import trio

from common.errors import InvalidRequest, Unavailable
from common.paths import Paths
from common.system.inthread import in_thread
from daemons.noded.files.nodefiles import read_pause, write_pause
from protocol.noded.work import GetWatcherPause, HookRun, HooksRunner, SetWatcherPause, TestDelay

_HOOKS: Final = Path("/etc/ganeti/hooks")
_HOOK_NAME: Final = re.compile(r"[\w-]+", re.ASCII)


class WorkHandlers:
    """Args: hooks: the folder of hooks."""

    def __init__(self, paths: Paths, hooks: Path = _HOOKS) -> None:
        self._pause = paths.watcher_pause
        self._hooks = hooks

    async def test_delay(self, call: TestDelay) -> None:
        """Raises: InvalidRequest: a negative duration."""
        if not call.duration >= 0:
            raise InvalidRequest(f"a delay is at least 0 seconds, got {call.duration:g}")
        await trio.sleep(call.duration)

    async def watcher_pause(self, _: GetWatcherPause) -> float | None:
        return await in_thread(read_pause, self._pause)

    async def set_watcher_pause(self, call: SetWatcherPause) -> None:
        await in_thread(write_pause, self._pause, call.until)

    async def run_hooks(self, call: HooksRunner) -> tuple[HookRun, ...]:
        """A node without hooks has nothing to run. Raises: Unavailable: there are some, which would be passed over."""
        if not (_HOOK_NAME.fullmatch(call.hpath) and _HOOK_NAME.fullmatch(call.phase)):
            raise InvalidRequest(f"'{call.hpath}' in phase '{call.phase}' names no hooks")
        folder = self._hooks / f"{call.hpath}-{call.phase}.d"
        if await in_thread(_has_programs, folder):
            raise Unavailable(f"this node daemon does not run hooks, and there are some in '{folder}'")
        return ()


def _has_programs(folder: Path) -> bool:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(os.access(folder / name, os.X_OK) for name in names)
