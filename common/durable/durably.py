"""Changes of files whose last step, the fsync of a folder, is repeated until it is done.

Theory. When that fsync fails everybody sees the change already. To report a failure then would be wrong, as others
may have acted on what they saw, and to report success too early. So nothing is reported, the fsync alone is tried
again, and the log says so. For threads that may wait; `common.durable.groupcommit` does the same within an event loop.

Source: common/durable/atomicfile.py.
"""

import time
from collections.abc import Callable
from typing import Final

from common.durable.atomicfile import NotYetDurable
from common.system.log import get_log

RETRY_S: Final = 0.5
_log: Final = get_log(__name__)


def durably(change: Callable[[], None]) -> None:
    """Make a change by functions of `common.durable.atomicfile`; returns only when it is durable.

    Raises: OSError: it was not made.
    """
    try:
        change()
    except NotYetDurable as error:
        settle(error)


def tell_not_durable(error: NotYetDurable) -> None:
    """Log that a folder could not be synced."""
    _log.error("folder.not_synced", folder=error.folders[0], reason=error.strerror, retry_s=RETRY_S)


def tell_durable(error: NotYetDurable) -> None:
    """Log that it could be at last."""
    _log.info("folder.synced", folder=error.folders[0])


def settle(error: NotYetDurable) -> None:
    """Repeat the fsyncs that are missing; returns when they are done."""
    tell_not_durable(error)
    while True:
        time.sleep(RETRY_S)
        try:
            error.repeat()
        except NotYetDurable as again:
            error = again
        else:
            tell_durable(error)
            return
