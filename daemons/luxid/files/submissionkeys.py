"""Submissions with a key chosen by the client, so that a second delivery gives the same ids.

Theory. A key is a small file beside the queue, durable before the first of its jobs exists: a repeated submission
that looks like a new one would run twice. A crash between the two leaves only the key, and the next luxid
forgets it. Several jobs are a batch (`batches`), whole or not at all, and their key goes with them.
A key belongs to its user, and is kept for a day, and until its jobs have ended: its jobs may begin next week. The
same key with other jobs is refused: a client that sends again sends the same bytes; a command that is run again under a
key that a person named runs at another time, so what the time makes is not compared (`timeless`). Clocks may jump, by
years if they were wrong at the start of the machine: so the newest keys, by their jobs' ids, are kept at any age.

Source: DESIGN sections 4 ("may be delivered twice") and 11.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson
import trio

from common.durable.atomicfile import FileWrite
from common.errors import Conflict, DamagedFile, GantryError, InvalidRequest
from common.ids import JobId
from common.opcodes.base import write_opcode
from common.paths import Paths
from common.queue.jobs import Job, JobState
from common.system.log import get_log
from daemons.luxid.core.submission.keyed import KeyedSubmission, ids_text, is_outdated, key_of, timeless
from daemons.luxid.core.submission.newjobs import Wanted
from daemons.luxid.files.knownids import has_trace
from daemons.luxid.files.queuefiles import Changes, QueueFiles
from daemons.luxid.turns import in_turns

# Submissions of more than one job: taken whole or not at all, even through a crash.
#
# Theory. Each job is a file of its own, and a crash between two renames leaves only some of them. So a batch is noted
# before the first of its jobs exists: in a small durable file beside the keys that names the ids. The note is removed
# when all jobs are durable, before the client gets a reply and before any of them may start. When the next luxid finds
# such a note, it looks for the jobs: if all exist, the batch is taken; if some or none do, the rest is removed. On a
# file system that does not order changes of folders, any of the jobs may be the missing one. A single job needs no
# note.
#
# Source: DESIGN section 11, "SubmitManyJobs".


_NOTE: Final = re.compile(r"batch-(\d+)-(\d+)", re.ASCII)
_log: Final = get_log(__name__)


@attrs.frozen
class KeyedBatch:
    """A submission of several jobs, with consecutive ids."""

    note: Path
    job_ids: range
    # files that belong to the jobs, and are removed with them: the file of the submission's key
    beside: tuple[Path, ...]


def note_of(paths: Paths, first_id: JobId, count: int, beside: Iterable[Path]) -> FileWrite:
    """The note of a batch, which must be durable before the first of its jobs.

    Args:
        beside: files in the data folder to remove with the jobs, if the batch is not taken.
    """
    names = [str(path.relative_to(paths.data)) for path in beside]
    return FileWrite(paths.submissions / f"batch-{first_id}-{count}", orjson.dumps(names))


def settle_batches(paths: Paths, jobs: Iterable[Job], changes: Changes) -> frozenset[JobId]:
    """Settle batches that a crash has interrupted, before any of their jobs may start.

    Args:
        jobs: all live ones, as found.
    Returns:
        The jobs that were removed, because their batch was not whole.
    Raises: OSError.
    Durability: on return no loss of power brings a removed job back.
    """
    batches = list(_read_notes(paths))
    if not batches:
        return frozenset()
    live = {job.job_id: job for job in jobs}
    cut_off = [batch for batch in batches if _is_cut_off(paths, batch, live)]
    gone = frozenset(JobId(job_id) for batch in cut_off for job_id in batch.job_ids if job_id in live)
    for batch in cut_off:
        span = f"{batch.job_ids[0]}-{batch.job_ids[-1]}"
        _log.warning("submission.cut_off", jobs=span, effect="removed; its client was not answered")
    # remove a note last: as long as it exists, this is repeated
    changes.remove([paths.job_file(job_id) for job_id in sorted(gone)])
    changes.remove([path for batch in cut_off for path in batch.beside])
    changes.remove([batch.note for batch in batches])
    return gone


def _read_notes(paths: Paths) -> Iterator[KeyedBatch]:
    for note in sorted(paths.submissions.iterdir()):
        if match := _NOTE.fullmatch(note.name):
            first, count = int(match[1]), int(match[2])
            beside = tuple(paths.data / name for name in orjson.loads(note.read_bytes()))
            yield KeyedBatch(note, range(first, first + count), beside)


def _is_cut_off(paths: Paths, batch: KeyedBatch, live: Mapping[JobId, Job]) -> bool:
    there = [JobId(job_id) for job_id in batch.job_ids if is_there(paths, JobId(job_id), live)]
    # jobs of a batch with a note have not been started; if one has, the note has come back after a loss of power
    return len(there) < len(batch.job_ids) and all(_is_untouched(live.get(job_id)) for job_id in there)


def is_there(paths: Paths, job_id: JobId, live: Collection[JobId]) -> bool:
    """Whether a file of the job exists, live, archived or damaged."""
    if job_id in live:
        return True
    return any(place.exists() for place in (paths.archived_job_file(job_id), paths.damaged / f"job-{job_id}"))


def _is_untouched(job: Job | None) -> bool:
    return job is not None and job.livelock is None and all(op.state is JobState.QUEUED for op in job.ops)


# The files of submission keys: one for each, beside the queue.
#
# Source: DESIGN sections 4 ("may be delivered twice") and 11; `submissionkeys`.


# number of newest keys that are kept at any age
KEPT_AT_LEAST: Final = 100


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
    """Forget keys of jobs that never existed, as a crash came before the first of them did; return the others.

    A job that is lost has left a trace: it would run again if its key were forgotten, too.

    Args:
        live: all live jobs.
    Raises: OSError. DamagedFile: the record of removals.
    """
    kept, unused = [], []
    for submission in known:
        is_used = any(is_there(paths, JobId(job_id), live) for job_id in submission.job_ids)
        if is_used or has_trace(paths, submission.job_ids):
            kept.append(submission)
            continue
        _log.warning("submission.cut_off", jobs=ids_text(submission), effect="forgotten; its client was not answered")
        unused.append(submission.name)
    _discard(paths, unused, changes)
    return kept


def _discard(paths: Paths, names: Sequence[str], changes: Changes) -> None:
    if names:
        changes.discard([paths.submissions / name for name in names])


LONGEST_KEY: Final = 200
# seconds between two looks at old keys of jobs that had not ended
LOOKED_S: Final = 600
# hexadecimal digits of a hash
_DIGITS: Final = 40


@attrs.frozen
class WantedKey:
    """The key of a submission that arrives."""

    text: str
    # whether a person or a script named it, and may send the jobs again at another time
    is_named: bool = False


def claim_by(text: str | None, *, is_named: bool = False) -> WantedKey | None:
    """The key of a call; None: it has none."""
    return None if text is None else WantedKey(text, is_named)


class SubmissionKeys:
    """The keys of the last day, and of jobs that have not ended.

    Args: is_unended: whether a job has not ended.
    """

    def __init__(
        self,
        paths: Paths,
        files: QueueFiles,
        known: Iterable[KeyedSubmission],
        is_unended: Callable[[JobId], bool] = lambda _: False,
    ) -> None:
        self._folder = paths.submissions
        self._files = files
        # oldest first
        self._known = {each.name: each for each in sorted(known, key=lambda each: each.first_id)}
        # older ones, with jobs that had not ended when they were looked at
        self._standing: dict[str, KeyedSubmission] = {}
        self._is_unended = is_unended
        # when those were last looked at
        self._looked_at = 0
        # keys of submissions that are being written
        self._arriving: dict[str, trio.Event] = {}

    def __len__(self) -> int:
        return len(self._known) + len(self._standing)

    @property
    def known(self) -> list[KeyedSubmission]:
        return [*self._known.values(), *self._standing.values()]

    def restore(self, submission: KeyedSubmission) -> None:
        """A key that was lost is durable here again; one that a client has used meanwhile stays."""
        self._known.setdefault(submission.name, submission)
        self._known = {each.name: each for each in sorted(self._known.values(), key=lambda each: each.first_id)}

    def find(self, owner: str, key: str) -> KeyedSubmission | None:
        """The submission under this key, whatever its jobs; None: there is none, or it is just being written."""
        return self._earlier(_name(owner, key))

    def _earlier(self, name: str) -> KeyedSubmission | None:
        return self._known.get(name) or self._standing.get(name)

    @contextlib.asynccontextmanager
    async def claim(self, owner: str, key: WantedKey, jobs: Sequence[Wanted]) -> AsyncIterator["KeyClaim"]:
        """Claim the right to submit under this key; waits while another caller does.

        Args: owner: user to whom the key belongs.
        Raises: InvalidRequest: the key is empty or too long. Conflict: it was used for other jobs.
        """
        if not 0 < len(key.text) <= LONGEST_KEY:
            raise InvalidRequest(f"a submission key has 1 to {LONGEST_KEY} characters, got {len(key.text)}")
        name, digest = _name(owner, key.text), await in_turns(_digest(jobs, is_named=key.is_named))
        while (arriving := self._arriving.get(name)) is not None:
            await arriving.wait()
        earlier = self._earlier(name)
        if earlier is not None and earlier.digest != digest:
            raise Conflict(
                f"submission key {key.text!r} was used for other jobs ({ids_text(earlier)}); "
                "take a new one for each submission"
            )
        self._arriving[name] = trio.Event()
        try:
            yield KeyClaim(self, name, digest, earlier)
        finally:
            self._arriving.pop(name).set()

    def file(self, submission: KeyedSubmission) -> FileWrite:
        content = orjson.dumps(attrs.asdict(submission), option=orjson.OPT_NON_STR_KEYS)
        return FileWrite(self._folder / submission.name, content)

    def repeatable(self, now_s: float) -> list[range]:
        """The jobs of each submission that a client may repeat, ascending."""
        found = [each.job_ids for each in self._known.values() if each.count and not is_outdated(each, now_s)]
        return sorted(found, key=lambda job_ids: job_ids.start)

    def outdated(self, now_s: float) -> list[KeyedSubmission]:
        """The submissions of earlier days."""
        return [each for each in self._known.values() if is_outdated(each, now_s)]

    async def forget(self, submissions: Iterable[KeyedSubmission]) -> None:
        """Forget these, whose jobs are all gone. Raises: OSError, NoLongerMaster: they may come back."""
        gone = [each for each in submissions if self._known.get(each.name) is each]
        for each in gone:
            del self._known[each.name]
        await self._files.discard([self._folder / each.name for each in gone])

    async def remember(self, submission: KeyedSubmission) -> None:
        """Remember a durable submission, and forget those older than a day whose jobs have ended."""
        self._known[submission.name] = submission
        outdated = self._ended_since(submission.received_at[0])
        while len(self._known) > KEPT_AT_LEAST:
            each = next(iter(self._known.values()))
            if not is_outdated(each, submission.received_at[0]):
                break
            del self._known[each.name]
            if self._has_unended(each):
                self._standing[each.name] = each
            else:
                outdated.append(each)
        if outdated:
            with contextlib.suppress(OSError):
                await self._files.discard([self._folder / each.name for each in outdated])

    def _ended_since(self, now_s: int) -> list[KeyedSubmission]:
        """Take those out whose jobs have ended; now and then, as it looks at many jobs."""
        if not self._standing or abs(now_s - self._looked_at) < LOOKED_S:
            return []
        self._looked_at = now_s
        ended = [each for each in self._standing.values() if not self._has_unended(each)]
        for each in ended:
            del self._standing[each.name]
        return ended

    def _has_unended(self, submission: KeyedSubmission) -> bool:
        # jobs begin in this order, so the last ones end last
        return any(self._is_unended(JobId(job_id)) for job_id in reversed(submission.job_ids))


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


def _digest(jobs: Sequence[Wanted], *, is_named: bool) -> Generator[int, None, str]:
    """Hash the jobs as JSON, in steps; each yields its number of opcodes."""
    digest = hashlib.sha256(b"[")
    for place, ops in enumerate(jobs):
        written: list[object] = [ops.message] if isinstance(ops, GantryError) else []
        for op in () if isinstance(ops, GantryError) else ops:
            written.append(timeless(write_opcode(op)) if is_named else write_opcode(op))
            yield 1
        digest.update((b"," if place else b"") + orjson.dumps(written, option=orjson.OPT_SORT_KEYS))
        yield 1
    digest.update(b"]")
    return digest.hexdigest()[:_DIGITS]


def _name(owner: str, key: str) -> str:
    return hashlib.sha256(f"{owner}:{key}".encode()).hexdigest()[:_DIGITS]
