"""The files of submission keys: one for each, beside the queue.

Source: DESIGN sections 4 ("may be delivered twice") and 11; `submissionkeys`.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Timestamp
from common.system.log import get_log
from daemons.luxid.files.batches import is_there
from daemons.luxid.files.queuefiles import Changes

KEPT_S: Final = 24 * 3600.0
# number of newest keys that are kept at any age
KEPT_AT_LEAST: Final = 100
_log: Final = get_log(__name__)


@attrs.frozen
class KeyedSubmission:
    """A submission under a key."""

    # hash of user and key, and the name of the file
    name: str
    # hash of the jobs, without their secrets
    digest: str
    first_id: JobId
    # number of jobs that were taken
    count: int
    received_at: Timestamp
    # place in the submission, from 0 -> reason why that job was refused
    refused: Mapping[int, str] = attrs.Factory(dict)

    @property
    def answers(self) -> list[JobId | str]:
        """For each job its id, or the reason why it was refused."""
        ids = iter(self.job_ids)
        places = range(self.count + len(self.refused))
        return [self.refused[place] if place in self.refused else JobId(next(ids)) for place in places]

    @property
    def job_ids(self) -> range:
        return range(self.first_id, self.first_id + self.count)


def load_keys(paths: Paths, now_s: float, changes: Changes, unended: Collection[JobId] = ()) -> list[KeyedSubmission]:
    """Read the keys; remove damaged ones, and those older than a day, except the newest and those of unended jobs.

    Raises: OSError: a key cannot be read. It is not forgotten then: if its jobs are sent again, they would run twice.
    """
    found, unreadable = [], []
    for name in os.listdir(paths.submissions):
        submission = _read(paths.submissions / name)
        if submission is not None:
            found.append(submission)
        else:
            unreadable.append(name)
    found.sort(key=lambda each: each.first_id)
    outdated = {
        each.name
        for each in found[:-KEPT_AT_LEAST]
        if is_outdated(each, now_s) and not any(job_id in unended for job_id in each.job_ids)
    }
    _discard(paths, [*unreadable, *outdated], changes)
    return [each for each in found if each.name not in outdated]


def is_outdated(submission: KeyedSubmission, now_s: float) -> bool:
    """Whether it is older than a day."""
    # a key from the future was made before the clock was set back
    return abs(now_s - submission.received_at[0]) > KEPT_S


def forget_unused(
    paths: Paths, known: Iterable[KeyedSubmission], live: Collection[JobId], changes: Changes
) -> list[KeyedSubmission]:
    """Forget keys without any job left (a crash came before the first existed); return the others.

    Args:
        live: all live jobs.
    Raises: OSError.
    """
    kept, unused = [], []
    for submission in known:
        if any(is_there(paths, JobId(job_id), live) for job_id in submission.job_ids):
            kept.append(submission)
            continue
        _log.warning("submission.cut_off", jobs=ids_text(submission), effect="forgotten; its client was not answered")
        unused.append(submission.name)
    _discard(paths, unused, changes)
    return kept


def _discard(paths: Paths, names: Sequence[str], changes: Changes) -> None:
    if names:
        changes.discard([paths.submissions / name for name in names])


def _read(path: Path) -> KeyedSubmission | None:
    try:
        value = orjson.loads(path.read_bytes())
        return KeyedSubmission(
            path.name,
            value["digest"],
            JobId(value["first_id"]),
            value["count"],
            tuple(value["received_at"]),
            {int(place): str(why) for place, why in value.get("refused", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("submission.unreadable", file=path, reason=error, effect="its key is not known any more")
        return None


def ids_text(submission: KeyedSubmission) -> str:
    """`17`, `17-20`."""
    last = submission.first_id + submission.count - 1
    return f"{submission.first_id}-{last}" if submission.count > 1 else str(last)
