"""Have luxid prepare the mastership for another node: nothing new begins, and what runs here ends.

Source: lease.md 7.
"""

from typing import Final

import trio

from common.errors import GantryError, UnknownMethod
from common.settings import Settings
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from protocol.client import Client
from protocol.luxi.daemon.moving import PrepareMove

_log: Final = get_log(__name__)


class Draining:
    def __init__(self, settings: Settings) -> None:
        self._paths = settings.paths

    async def hold(self, *, kill: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep luxid from taking and starting work; started when nothing runs here any more.

        Cancellation: luxid takes work again.
        """
        for pause_s in retry_pauses():
            try:
                async with Client(self._paths.query_socket, daemon="luxid") as luxid:
                    _log.info("master.draining", kill=kill)
                    await luxid.call(PrepareMove(kill))
                    _log.info("master.drained")
                    task_status.started()
                    # the connection holds luxid so
                    await trio.sleep_forever()
            except UnknownMethod:
                raise
            except GantryError as error:
                _log.warning("master.not_drained", reason=error.message, going_on="again until it succeeds")
            await trio.sleep(pause_s)
