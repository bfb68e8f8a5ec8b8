"""keeperd: the only module that knows all its parts.

Source: DESIGN section 14.
"""

from typing import Final

import trio

from common.daemons import Feature
from common.settings import Settings
from common.system.daemons.daemon import run_daemon
from common.system.daemons.listenoptions import tell_if_enabled

NAME: Final = "keeperd"


def main() -> None:
    """The program gantry-keeperd; with --check-enabled its exit code says whether the settings enable it."""
    tell_if_enabled(Feature.LEASE)
    run_daemon(NAME, "Holds the mastership under a lease.", serve)


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run keeperd; started when its socket listens."""
    task_status.started()
    await trio.sleep_forever()


if __name__ == "__main__":
    main()
