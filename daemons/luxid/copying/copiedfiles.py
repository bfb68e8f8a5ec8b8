"""The files of the queue that other nodes get, as the backlogs call them."""

from pathlib import Path

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.copies.backlog import Fact, Key, StateName
from protocol.noded.names import REMOVALS, SUBMISSIONS, WAITS

_JOB = "job-"


class CopiedFiles:
    """Paths of the master as keys of backlogs, and back."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.facts = {
            paths.serial_file: Fact.SERIAL,
            paths.drain_file: Fact.DRAIN,
            paths.watcher_pause: Fact.WATCHER_PAUSE,
        }
        self._places = {fact: path for path, fact in self.facts.items()}

    def key(self, path: Path) -> Key | None:
        """None: other nodes do not get this file, or not by itself."""
        return self.facts.get(path) or self.job(path) or self.state(path)

    def state(self, path: Path) -> StateName | None:
        """The name of a file of ours; None: another file."""
        if path == self._paths.removals:
            return StateName(REMOVALS)
        return StateName(f"{SUBMISSIONS}/{path.name}") if path.parent == self._paths.submissions else None

    def removed_state(self, path: Path) -> StateName | None:
        """As `state`; a history of waits, too, which is sent only after changes of its jobs."""
        return StateName(f"{WAITS}/{path.name}") if path.parent == self._paths.waits else self.state(path)

    def archived_job(self, path: Path) -> JobId | None:
        """The id of an archived job's file; None: another file."""
        number = path.name.removeprefix(_JOB)
        is_job = path.name.startswith(_JOB) and number.isdigit() and path.parent.parent == self._paths.archive
        return JobId(int(number)) if is_job else None

    def job(self, path: Path) -> JobId | None:
        """The id of a live job's file; None: another file."""
        number = path.name.removeprefix(_JOB)
        is_job = path.parent == self._paths.queue and path.name.startswith(_JOB) and number.isdigit()
        return JobId(int(number)) if is_job else None

    def path(self, key: Key) -> Path:
        """The file; of a job, that of a live one."""
        if isinstance(key, Fact):
            return self._places[key]
        return self._paths.data / key if isinstance(key, str) else self._paths.job_file(key)
