"""luxid, which asks the other nodes for their serials only after a while."""

from typing import Final

import trio

from common.ids import JobId
from common.settings import Settings
from daemons.luxid.main import main
from daemons.luxid.nodes import idsonnodes

WHILE_S: Final = 1.5
_ask: Final = idsonnodes.serial_on_nodes


async def _ask_later(settings: Settings) -> JobId:
    await trio.sleep(WHILE_S)
    return await _ask(settings)


if __name__ == "__main__":
    idsonnodes.serial_on_nodes = _ask_later
    main()
