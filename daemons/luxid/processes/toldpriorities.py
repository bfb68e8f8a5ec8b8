"""New priorities that were told to the processes of jobs.

A process may end before it has heard of it, while its job goes on with the next one. Then luxid gives the job the
priority itself, before anything else is decided about it.

Source: luxid.md 2.5.
"""

import re
from typing import Final

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.prioritymessage import left_priority, remove_priority, write_priority
from common.system.log import get_log

_MESSAGE: Final = re.compile(r"(\d+)\.prio(\.taken)?", re.ASCII)
_log: Final = get_log(__name__)


class ToldPriorities:
    """The messages with new priorities, those of an earlier luxid included."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # jobs that may have a message; so the others cost nothing
        self._told = {JobId(int(match[1])) for match in map(_match, _names(paths)) if match}

    @property
    def jobs(self) -> frozenset[JobId]:
        """The jobs that may have a message."""
        return frozenset(self._told)

    def tell(self, job_id: JobId, priority: int) -> None:
        """Leave the number where the job's process looks for it, which the caller wakes. Raises: OSError."""
        write_priority(self._paths.priority_message(job_id), priority)
        self._told.add(job_id)

    def left(self, job_id: JobId) -> int | None:
        """Return the priority that the job's process, which is dead, had not taken; None: there is none.

        Raises: Unavailable: it cannot be read at the moment.
        """
        if job_id not in self._told:
            return None
        message = self._paths.priority_message(job_id)
        try:
            return left_priority(message)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the new priority in '{message}' cannot be read: {reason}") from error
        except ValueError as error:
            _log.warning("priority.unreadable", job=job_id, error=error, effect="the job keeps its priority")
            return None

    def withdraw(self, job_id: JobId) -> None:
        """Remove the message, if there is one."""
        if job_id not in self._told:
            return
        self._told.discard(job_id)
        try:
            remove_priority(self._paths.priority_message(job_id))
        except OSError as error:
            _log.error("priority.message_left", job=job_id, reason=error, effect="the next luxid removes it")


def _names(paths: Paths) -> list[str]:
    return [path.name for path in paths.messages.glob("*.prio*")]


def _match(name: str) -> re.Match[str] | None:
    return _MESSAGE.fullmatch(name)
