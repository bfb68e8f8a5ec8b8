"""confd: answers questions about the configuration. The only module that knows all its parts.

Source: DESIGN section 12; confd.md 1.
"""

from typing import Final

import trio

from common.daemons import Feature
from common.settings import Settings
from common.system.daemons.daemon import run_daemon
from common.system.daemons.listenoptions import listen_options, tell_if_enabled
from common.system.log import get_log
from daemons.confd.knowledge import Knowledge
from daemons.confd.replying import Replies, open_socket

NAME: Final = "confd"
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-confd; with --check-enabled it only says, by its exit code, whether the settings enable it."""
    tell_if_enabled(Feature.QUESTIONS)
    run_daemon(NAME, "Answers questions about the configuration.", serve, own=listen_options(NAME))


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run confd; started when it listens, and has looked for the configuration.

    Raises: Unavailable: the port is taken.
    """
    knowledge = Knowledge(settings.paths)
    await knowledge.load()
    with open_socket(settings.confd_address, settings.confd.port) as sock:
        replies = Replies(sock, lambda: knowledge.current)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(knowledge.follow)
            nursery.start_soon(replies.run)
            _log.info("questions.taken", address=settings.confd_address or "*", port=settings.confd.port)
            task_status.started()


if __name__ == "__main__":
    main()
