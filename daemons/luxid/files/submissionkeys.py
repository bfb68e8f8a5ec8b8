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
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from typing import Final

import attrs
import orjson
import trio

from common.durable.atomicfile import FileWrite
from common.errors import Conflict, GantryError, InvalidRequest
from common.ids import JobId
from common.opcodes.base import write_opcode
from common.paths import Paths
from common.queue.jobs import Job
from common.system.log import get_log
from daemons.luxid.core.submission.keyed import KeyedSubmission, ids_text, is_outdated
from daemons.luxid.core.submission.newjobs import Wanted
from daemons.luxid.core.submission.timelessops import timeless
from daemons.luxid.files.keyfiles import KEPT_AT_LEAST
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.turns import in_turns

LONGEST_KEY: Final = 200
# seconds between two looks at old keys of jobs that had not ended
LOOKED_S: Final = 600
# hexadecimal digits of a hash
_DIGITS: Final = 40
_log: Final = get_log(__name__)


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
