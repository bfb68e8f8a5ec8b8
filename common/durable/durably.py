"""Changes of files whose last step, the fsync of a folder, is repeated until it succeeds.

Theory. When that fsync fails, every process already sees the change. A reported failure would be wrong, because
others may have acted on what they saw, and a reported success would be premature. So nothing is reported; only the
fsync is repeated, and the log says so. This module is for threads, which may wait; `common.durable.groupcommit` does
the same in an event loop. A write that fails before the rename has changed nothing (`atomicfile`).

Source: common/durable/folders.py.
"""

import time
from collections.abc import Callable
from typing import Final

from common.durable.folders import NotYetDurable
from common.system.log import get_log

RETRY_S: Final = 0.5
_log: Final = get_log(__name__)


def durably(change: Callable[[], None]) -> None:
    """Make a change by functions of `common.durable`; return only when it is durable.

    Raises: OSError: the change was not made.
    """
    try:
        change()
    except NotYetDurable as error:
        settle(error)


def tell_not_durable(error: NotYetDurable) -> None:
    """Log that a folder could not be synced."""
    _log.error("folder.not_synced", folder=error.folders[0], reason=error.strerror, retry_s=RETRY_S)


def tell_durable(error: NotYetDurable) -> None:
    """Log that the folder could be synced at last."""
    _log.info("folder.synced", folder=error.folders[0])


def settle(error: NotYetDurable) -> None:
    """Repeat the missing fsyncs until they succeed."""
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
