"""Submissions with a key chosen by the client, so that a second delivery gives the same ids.

Theory. A key is a small file beside the queue, durable before the first of its jobs exists: a repeated submission
that looks like a new one would run twice. A crash between the two leaves only the key, and the next luxid
forgets it. Several jobs are a batch (`batches`), whole or not at all, and their key goes with them.
A key belongs to its user, and is kept for a day. The same key with other jobs is refused. Clocks may jump, by years if
they were wrong at the start of the machine: so the newest keys, by their jobs' ids, are kept at any age.

Source: DESIGN sections 4 ("may be delivered twice") and 11.
"""

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.durable.atomicfile import FileWrite
from common.errors import Conflict, GantryError, InvalidRequest
from common.ids import JobId
from common.opcodes.base import write_opcode
from common.paths import Paths
from common.queue.jobs import Job, Timestamp
from common.system.log import get_log
from daemons.luxid.core.queue.newjobs import Wanted
from daemons.luxid.files.batches import is_there
from daemons.luxid.files.queuefiles import Changes, QueueFiles
from daemons.luxid.turns import in_turns

KEPT_S: Final = 24 * 3600.0
# number of newest keys that are kept at any age
KEPT_AT_LEAST: Final = 100
LONGEST_KEY: Final = 200
# hexadecimal digits of a hash
_DIGITS: Final = 40
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


class SubmissionKeys:
    """The keys of the last day."""

    def __init__(self, paths: Paths, files: QueueFiles, known: Iterable[KeyedSubmission]) -> None:
        self._folder = paths.submissions
        self._files = files
        # oldest first
        self._known = {each.name: each for each in sorted(known, key=lambda each: each.first_id)}
        # keys of submissions that are being written
        self._arriving: dict[str, trio.Event] = {}

    def __len__(self) -> int:
        return len(self._known)

    @contextlib.asynccontextmanager
    async def claim(self, owner: str, key: str, jobs: Sequence[Wanted]) -> AsyncIterator["KeyClaim"]:
        """Claim the right to submit under this key; waits while another caller does.

        Args: owner: user to whom the key belongs.
        Raises: InvalidRequest: the key is empty or too long. Conflict: it was used for other jobs.
        """
        if not 0 < len(key) <= LONGEST_KEY:
            raise InvalidRequest(f"a submission key has 1 to {LONGEST_KEY} characters, got {len(key)}")
        name, digest = _name(owner, key), await in_turns(_digest(jobs))
        while (arriving := self._arriving.get(name)) is not None:
            await arriving.wait()
        if (earlier := self._known.get(name)) is not None and earlier.digest != digest:
            raise Conflict(
                f"submission key {key!r} was used for other jobs ({_ids(earlier)}); take a new one for each submission"
            )
        self._arriving[name] = trio.Event()
        try:
            yield KeyClaim(self, name, digest, earlier)
        finally:
            self._arriving.pop(name).set()

    def file(self, submission: KeyedSubmission) -> FileWrite:
        content = orjson.dumps(attrs.asdict(submission), option=orjson.OPT_NON_STR_KEYS)
        return FileWrite(self._folder / submission.name, content)

    async def remember(self, submission: KeyedSubmission) -> None:
        """Remember a durable submission, and forget those older than a day."""
        self._known[submission.name] = submission
        outdated = []
        while len(self._known) > KEPT_AT_LEAST:
            each = next(iter(self._known.values()))
            if not _is_outdated(each, submission.received_at[0]):
                break
            outdated.append(self._folder / each.name)
            del self._known[each.name]
        if outdated:
            with contextlib.suppress(OSError):
                await self._files.discard(outdated)


@attrs.frozen
class KeyClaim:
    """The right to submit under a key."""

    _keys: SubmissionKeys
    _name: str
    _digest: str
    # earlier submission under this key; None: the key is new
    earlier: KeyedSubmission | None

    def file(self, jobs: Sequence[Job], refused: Mapping[int, str]) -> FileWrite:
        """The file that keeps the key, to be written with these jobs."""
        return self._keys.file(self._submission(jobs, refused))

    async def fulfil(self, jobs: Sequence[Job], refused: Mapping[int, str]) -> None:
        """Remember that the jobs, and the file, are durable."""
        await self._keys.remember(self._submission(jobs, refused))

    def _submission(self, jobs: Sequence[Job], refused: Mapping[int, str]) -> KeyedSubmission:
        received_at = jobs[0].received_at
        assert received_at is not None
        return KeyedSubmission(self._name, self._digest, jobs[0].job_id, len(jobs), received_at, refused)


def load_keys(paths: Paths, now_s: float, changes: Changes) -> list[KeyedSubmission]:
    """Read the keys; remove those older than a day, except the newest, and damaged ones.

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
    outdated = {each.name for each in found[:-KEPT_AT_LEAST] if _is_outdated(each, now_s)}
    _discard(paths, [*unreadable, *outdated], changes)
    return [each for each in found if each.name not in outdated]


def _is_outdated(submission: KeyedSubmission, now_s: float) -> bool:
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
        _log.warning("submission.cut_off", jobs=_ids(submission), effect="forgotten; its client was not answered")
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


def _digest(jobs: Sequence[Wanted]) -> Generator[int, None, str]:
    """Hash the jobs as JSON, in steps; each yields its number of opcodes."""
    digest = hashlib.sha256(b"[")
    for place, ops in enumerate(jobs):
        written: list[object] = [ops.message] if isinstance(ops, GantryError) else []
        for op in () if isinstance(ops, GantryError) else ops:
            written.append(write_opcode(op))
            yield 1
        digest.update((b"," if place else b"") + orjson.dumps(written, option=orjson.OPT_SORT_KEYS))
        yield 1
    digest.update(b"]")
    return digest.hexdigest()[:_DIGITS]


def _name(owner: str, key: str) -> str:
    return hashlib.sha256(f"{owner}:{key}".encode()).hexdigest()[:_DIGITS]


def _ids(submission: KeyedSubmission) -> str:
    last = submission.first_id + submission.count - 1
    return f"{submission.first_id}-{last}" if submission.count > 1 else str(last)
