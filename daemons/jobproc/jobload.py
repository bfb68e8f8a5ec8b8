"""Read the job at the start of its process: patiently, since a reading error says nothing about the job.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

import os

from common.errors import GantryError
from common.ids import JobId
from common.paths import Paths
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from common.system.signals import ProcessSignals
from daemons.jobproc.jobrecord import JobRecord

_log = get_log(__name__)


def load_record(job_id: JobId, paths: Paths, livelock: Livelock, signals: ProcessSignals) -> JobRecord | None:
    """Return the job's record, as soon as its file can be read.

    Returns: None: the file is missing or damaged, or the job is to be canceled before it could be read. Nothing
        has happened to the job, and luxid judges it when this process is gone.
    """
    for pause_s in retry_pauses():
        try:
            return JobRecord.load(
                paths.job_file(job_id), paths.job_log(job_id), livelock=livelock.path, process_id=os.getpid()
            )
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, GantryError) as error:
            _log.error("job.damaged", job=job_id, reason=error, effect="left to luxid")
            return None
        except OSError as error:
            _log.error("job.unreadable", job=job_id, reason=error, effect="it begins when it is read", retry_s=pause_s)
        if signals.cancel_asked:
            return None
        # a signal ends the pause
        signals.wait(pause_s)
    raise AssertionError("pauses never end")
