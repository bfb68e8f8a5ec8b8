"""Which running jobs are to stop before their next opcode.

A job is paused by the ruling of the filters, or because its batch has stopped before it began; and only while it
runs: one that stops or ends is asked for nothing any more. Changes are kept until the shell takes them to the jobs; of
a change that was undone meanwhile only the result is told.

Source: filters design; DESIGN section 11, "PAUSE".
"""

import attrs

from common.ids import JobId
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.entry import Entry


@attrs.frozen
class PauseChanges:
    """Running jobs that are to stop before their next opcode, and those that need not any more."""

    pause: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()


class Pausing:
    """The running jobs under a rule with PAUSE, or of a batch that has stopped."""

    def __init__(self) -> None:
        self._pausing: set[JobId] = set()
        # jobs that changed since changes were last taken, in order
        self._changed: dict[JobId, None] = {}

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._pausing

    def stop(self, entry: Entry) -> None:
        """Pause the job whenever it runs, as its batch has stopped before it began."""
        entry.is_stopped = True
        self.note(entry)

    def let_go(self, entry: Entry) -> None:
        """Take note that the job, which is held, is back in the queue."""
        entry.is_stopped = False

    def note(self, entry: Entry) -> None:
        """Take note that the phase of the job, or the ruling on it, may have changed."""
        job_id = entry.job.job_id
        should_pause = entry.phase is Phase.RUNNING and (entry.ruling.is_pause or entry.is_stopped)
        if should_pause != (job_id in self._pausing):
            (self._pausing.add if should_pause else self._pausing.discard)(job_id)
            self._changed[job_id] = None

    def take_changes(self) -> PauseChanges:
        """Return what has changed since the last call."""
        if not self._changed:
            return PauseChanges()
        changed, self._changed = self._changed, {}
        pause = tuple(job_id for job_id in changed if job_id in self._pausing)
        return PauseChanges(pause, tuple(job_id for job_id in changed if job_id not in self._pausing))
