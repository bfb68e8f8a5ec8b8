"""The files of jobs: the queue and its archive, and what is ours beside them.

Source: luxid.md 1.1, 3; DESIGN section 11.
"""

from functools import cached_property
from pathlib import Path
from typing import Final

import attrs

from common.places.folders import Folders

# version of the queue's folder, stored in its file `version`; others are refused
QUEUE_VERSION: Final = 1
# number of jobs whose archived files share a folder: ids with the same quotient by it
ARCHIVE_FOLDER_JOBS: Final = 10_000
# number of jobs whose waits share a file: ids with the same quotient by it
WAITS_FILE_JOBS: Final = 100


@attrs.frozen
class QueuePaths(Folders):
    """In the folder for data."""

    @cached_property
    def queue(self) -> Path:
        """The files of jobs that are not archived."""
        return self.data / "queue"

    def job_file(self, job_id: int) -> Path:
        """A job."""
        return self.queue / f"job-{job_id}"

    @property
    def serial_file(self) -> Path:
        """The last job id used."""
        return self.queue / "serial"

    @property
    def version_file(self) -> Path:
        """The version of the queue's form."""
        return self.queue / "version"

    @property
    def drain_file(self) -> Path:
        """Exists while the queue is drained."""
        return self.queue / "drain"

    @property
    def queue_lock(self) -> Path:
        """Held by luxid with a POSIX write lock."""
        return self.queue / "lock"

    @cached_property
    def archive(self) -> Path:
        """The files of archived jobs, 10,000 to a folder."""
        return self.queue / "archive"

    def archived_job_file(self, job_id: int) -> Path:
        """An archived job."""
        return self.archive / str(job_id // ARCHIVE_FOLDER_JOBS) / f"job-{job_id}"

    @property
    def output(self) -> Path:
        """The outputs of commands run by jobs; ours."""
        return self.data / "output"

    def output_file(self, job_id: int) -> Path:
        """What the commands of a job have printed."""
        return self.output / f"job-{job_id}"

    def error_output_file(self, job_id: int) -> Path:
        """Standard error of commands that keep it apart."""
        return self.output / f"job-{job_id}.err"

    @property
    def submissions(self) -> Path:
        """The keys that clients gave to their submissions; ours."""
        return self.data / "submissions"

    @property
    def job_logs(self) -> Path:
        """Log lines of running jobs, until the job files have them; ours."""
        return self.data / "joblogs"

    def job_log(self, job_id: int) -> Path:
        """Log lines of a running job."""
        return self.job_logs / f"job-{job_id}"

    @property
    def waits(self) -> Path:
        """What jobs waited for; ours."""
        return self.data / "waits"

    def waits_file(self, job_id: int) -> Path:
        """The waits of all jobs whose ids have the same quotient, live and archived ones."""
        return self.waits / str(job_id // WAITS_FILE_JOBS)

    @property
    def history(self) -> Path:
        """The index of ended jobs; ours, of each node alone. Never copied, and not worth a backup: made anew."""
        return self.data / "history.sqlite"

    @property
    def notify_since(self) -> Path:
        """The instant since when people are told of ended jobs; ours, of each node alone."""
        return self.data / "notify.since"

    @property
    def removals(self) -> Path:
        """Which jobs and histories of waits were removed on purpose; ours, and copied to the candidates."""
        return self.data / "removals"

    @property
    def node_commands(self) -> Path:
        """The commands that masters run on this node, and their output; ours."""
        return self.data / "commands"

    @property
    def damaged(self) -> Path:
        """Unreadable job files that were moved away; ours."""
        return self.data / "queue-damaged"
