"""A submission under a key, as its file tells it. Pure.

Source: DESIGN sections 4 ("may be delivered twice") and 11.
"""

import re
from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from common.errors import DamagedFile, InvalidRequest
from common.ids import JobId
from common.queue import reasons, terms
from common.queue.jobs import Timestamp

KEPT_S: Final = 24 * 3600.0


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


def is_outdated(submission: KeyedSubmission, now_s: float) -> bool:
    """Whether it is older than a day."""
    # a key from the future was made before the clock was set back
    return abs(now_s - submission.received_at[0]) > KEPT_S


def key_of(name: str, content: bytes) -> KeyedSubmission:
    """The submission that the file of a key tells. Args: name: of the file. Raises: DamagedFile."""
    try:
        value = orjson.loads(content)
        return KeyedSubmission(
            name.rpartition("/")[2],
            value["digest"],
            JobId(value["first_id"]),
            value["count"],
            tuple(value["received_at"]),
            {int(place): str(why) for place, why in value.get("refused", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"'{name}' is not the key of a submission: {error}", file=name) from error


def ids_text(submission: KeyedSubmission) -> str:
    """`17`, `17-20`."""
    last = submission.first_id + submission.count - 1
    return f"{submission.first_id}-{last}" if submission.count > 1 else str(last)


# An opcode without what depends on the time of its submission.
#
# A command that is run again under the key of an earlier submission is the same one, if it differs only in this: the
# times in the reason trails, the id of the batch, which is drawn anew, the instant at which the job may begin,
# which `--begin 'in 2h'` names anew, and the span that submits it, which each attempt has for itself.
#
# Source: DESIGN section 16, "a submission key for scripts".


_BATCH_ID: Final = re.compile(r"id=[^;]*", re.ASCII)


def timeless(op: Mapping[str, object]) -> dict[str, object]:
    """The opcode in its written form, with trails of `[source, text]`."""
    trail = op.get("reason")
    if not isinstance(trail, list | tuple):
        return dict(op)
    return {**op, "reason": [_entry(str(entry[0]), str(entry[1])) for entry in trail]}


def _entry(source: str, text: str) -> list[str]:
    if source == reasons.BATCH_SOURCE:
        return [source, _BATCH_ID.sub("", text, count=1)]
    return [source, _terms(text)] if source == terms.SOURCE else [source, text]


def _terms(text: str) -> str:
    try:
        found = terms.check_terms(text)
    except InvalidRequest:
        # it is refused, and its words tell why
        return text
    hold = None if found.hold is None else attrs.evolve(found.hold, by="", at=0.0)
    return terms.write_terms(attrs.evolve(found, begin_at=None, hold=hold, trace=""))
