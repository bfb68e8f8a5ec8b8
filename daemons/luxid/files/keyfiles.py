"""The files of submission keys: one for each, beside the queue.

Source: DESIGN sections 4 ("may be delivered twice") and 11; `submissionkeys`.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from common.errors import DamagedFile
from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log
from daemons.luxid.core.submission.keyed import KeyedSubmission, ids_text, is_outdated, key_of
from daemons.luxid.files.batches import is_there
from daemons.luxid.files.queuefiles import Changes

# number of newest keys that are kept at any age
KEPT_AT_LEAST: Final = 100
_log: Final = get_log(__name__)


def load_keys(paths: Paths, now_s: float, changes: Changes, unended: Collection[JobId] = ()) -> list[KeyedSubmission]:
    """Read the keys; remove damaged ones, and those older than a day, except the newest and those of unended jobs.

    Raises: OSError: a key cannot be read. It is not forgotten then: if its jobs are sent again, they would run twice.
    """
    found, unreadable = [], []
    for name in os.listdir(paths.submissions):
        path = paths.submissions / name
        content = path.read_bytes()
        try:
            found.append(key_of(str(path), content))
        except DamagedFile as error:
            _log.warning("submission.unreadable", file=path, reason=error, effect="its key is not known any more")
            unreadable.append(name)
    found.sort(key=lambda each: each.first_id)
    outdated = {
        each.name
        for each in found[:-KEPT_AT_LEAST]
        if is_outdated(each, now_s) and not any(job_id in unended for job_id in each.job_ids)
    }
    _discard(paths, [*unreadable, *outdated], changes)
    return [each for each in found if each.name not in outdated]


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
