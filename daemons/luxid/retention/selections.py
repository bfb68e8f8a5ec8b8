"""What the index of the history says of the jobs that are kept; all functions are for threads.

Raises, all: DamagedIndex, sqlite3.Error.
"""

from collections.abc import Iterable

import orjson

from common.ids import JobId
from common.settingwords.retentionsettings import RetentionSettings
from daemons.luxid.core.past.conditions import Condition
from daemons.luxid.core.past.places import Place
from daemons.luxid.core.retention import keeping
from daemons.luxid.core.retention.keeping import Mark, is_due, read_marks
from daemons.luxid.history.pastindex import PastIndex


def select_due(index: PastIndex, rules: RetentionSettings, now_s: float) -> tuple[list[JobId], list[Mark]]:
    """The live jobs to archive, and the marks of the jobs that may be removed, each by id."""
    old = [JobId(int(str(row[0]))) for row in index.select(keeping.archivable(rules, now_s))]
    marks = read_marks(index.select(keeping.candidates(rules, now_s)))
    return old, [mark for mark in marks if is_due(mark, rules, now_s)]


def ended_before(index: PastIndex, job_ids: Iterable[JobId], at: float) -> list[JobId]:
    """Those of these jobs that ended before an instant."""
    listed = orjson.dumps(list(job_ids)).decode()
    sql = 'SELECT id FROM jobs WHERE "end" < ? AND id IN (SELECT value FROM json_each(?))'
    return [JobId(int(str(row[0]))) for row in index.select(Condition(sql, (at, listed)))]


def kept_jobs(index: PastIndex) -> list[int]:
    """The ended jobs that are not removed."""
    return [
        int(str(row[0])) for row in index.select(Condition("SELECT id FROM jobs WHERE place < ?", (Place.REMOVED,)))
    ]


def count_rows(index: PastIndex, before: float) -> int:
    """The rows of removed jobs that ended before an instant."""
    sql = 'SELECT COUNT(*) FROM jobs WHERE place = ? AND "end" < ?'
    return int(str(index.select(Condition(sql, (Place.REMOVED, before)))[0][0]))
