"""Bring the master's address up and down by the operator's program.

Source: DESIGN section 14.
"""

import os
import subprocess
from typing import Final

import trio

from common.settings import Settings
from common.system.log import get_log

_LIMIT_S: Final = 30.0
_log: Final = get_log(__name__)


class Address:
    """Nothing is done where the settings name no program. Never raises: the mastership does not depend on it."""

    def __init__(self, settings: Settings) -> None:
        self._program = settings.keeperd.address_program
        self._node = settings.cluster.own_name
        # whether the program has been called with `up`, and not with `down` since; None: not known
        self._is_up: bool | None = None

    async def bring_up(self) -> None:
        await self._call(is_up=True)

    async def take_down(self) -> None:
        await self._call(is_up=False)

    async def _call(self, *, is_up: bool) -> None:
        if not self._program or self._is_up is is_up:
            return
        # not known while the program runs, also if it is cut off
        self._is_up = None
        word = "up" if is_up else "down"
        try:
            with trio.fail_after(_LIMIT_S):
                done = await trio.run_process(
                    [self._program, word],
                    env={**os.environ, "GANTRY_NODE": self._node},
                    capture_stdout=True,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except trio.TooSlowError:
            _log.error("address.failed", program=self._program, word=word, reason=f"not done within {_LIMIT_S:g} s")
        except OSError as error:
            _log.error("address.failed", program=self._program, word=word, reason=error)
        else:
            text = done.stdout.decode(errors="replace").strip()[-400:]
            if done.returncode:
                _log.error("address.failed", program=self._program, word=word, code=done.returncode, output=text)
            else:
                _log.info("address.changed", word=word)
            self._is_up = is_up
