"""Have an old master fenced: by the operator's programs, one after the other, until one has done it.

Theory. A program says by its exit code that the node certainly runs no more (0), that it could not do it (1), or that
it is not for this node (2). No reply is no fence. A program that always says yes, as `true`, turns a fault into side
effects of two masters; such are refused by name.

Source: lease.md 6.
"""

import os
import subprocess
from collections.abc import Mapping
from typing import Final

import trio

from common.errors import GantryError, InvalidRequest
from common.lease.leasesettings import KeeperdSettings
from common.lease.records import LastMaster
from common.settings import Settings
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from protocol.client import Client
from protocol.dial import dial
from protocol.wconfd.ghosts import LayGuards, ListGhosts

_NOT_FOR_IT: Final = 2
_ALWAYS_YES: Final = frozenset({"true", ":"})
_log: Final = get_log(__name__)


def check_programs(settings: KeeperdSettings) -> None:
    """Raises: InvalidRequest: a program cannot fence anything."""
    for program in settings.fence:
        if os.path.basename(program) in _ALWAYS_YES:
            raise InvalidRequest(
                f"'{program}' in 'fence' of '[keeperd]' fences nothing and always says that it has: locks of jobs "
                "that still run would be released; leave 'fence' empty instead"
            )


class Fencing:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings.keeperd
        self._paths = settings.paths

    async def fence(self, last: LastMaster, epoch: int) -> None:
        """Try all programs, again and again until one has fenced the node; then its ghosts end."""
        if not self._settings.fence:
            return
        for pause_s in retry_pauses():
            if await self.by_any(last.node, epoch):
                break
            await trio.sleep(pause_s)
        await self._tell_wconfd(last.node)

    async def by_any(self, node: str, epoch: int) -> bool:
        """Try each program once; return whether one has fenced the node. Args: epoch: of this mastership."""
        surroundings = {**os.environ, "GANTRY_NODE": node, "GANTRY_EPOCH": str(epoch)}
        for program in self._settings.fence:
            if await self._by(program, node, surroundings):
                return True
        return False

    async def _by(self, program: str, node: str, surroundings: Mapping[str, str]) -> bool:
        limit_s = self._settings.fence_timeout_s
        _log.info("fence.begun", node=node, program=program)
        try:
            with trio.fail_after(limit_s):
                done = await trio.run_process(
                    [program, node],
                    env=surroundings,
                    capture_stdout=True,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except trio.TooSlowError:
            _log.error("fence.failed", node=node, program=program, reason=f"not done within {limit_s:g} s")
            return False
        except OSError as error:
            _log.error("fence.failed", node=node, program=program, reason=error)
            return False
        output = done.stdout.decode(errors="replace").strip()[-400:]
        if done.returncode == 0:
            _log.warning("fence.done", node=node, program=program, output=output)
        elif done.returncode == _NOT_FOR_IT:
            _log.info("fence.not_for_node", node=node, program=program)
        else:
            _log.error("fence.failed", node=node, program=program, code=done.returncode, output=output)
        return done.returncode == 0

    async def _tell_wconfd(self, node: str) -> None:
        """As an operator does by `gantry fenced NODE`, once luxid has raised the ghosts of the old master."""
        for pause_s in retry_pauses():
            try:
                dial(self._paths.query_socket, "luxid").close()
                async with Client(self._paths.wconfd_socket, daemon="wconfd") as wconfd:
                    ghosts = await wconfd.call(ListGhosts())
                    keys = tuple(guard.key for ghost in ghosts for guard in ghost.guards if guard.node == node)
                    if keys:
                        await wconfd.call(LayGuards(keys, f"node {node}: fenced, says a fence agent"))
                    _log.info("ghosts.fenced", node=node, keys=len(keys))
                    return
            except GantryError as error:
                _log.info("ghosts.not_told", node=node, reason=error.message, going_on="again until it succeeds")
            await trio.sleep(pause_s)
