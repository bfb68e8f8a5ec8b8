"""A client of masters that come and go: submits, looks, waits, cancels, changes filters, tags and limits at random.

Run as a program with the arguments FOLDER NAME SEED; the folder has `nodes`, a line with name and root of each node.
It notes each exchange in `FOLDER/told-NAME`, and ends when `FOLDER/stop` is there.
"""

import random
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from common.errors import RemoteError
from common.ids import JobId
from common.objects.kinds import TagKind
from common.paths import Paths
from protocol.luxi.jobs import Accepted, CancelJob, SubmitManyJobs
from protocol.luxi.queries import QueryJobs, WaitForJobChange
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from protocol.messages import Request
from protocol.wconfd.changes import ChangeJobLimits, ChangeTags
from protocol.wconfd.config import ReadConfig
from tests.reliability.lease.history import Asked, Cancel, Look, Notes, Read, Submit, Told, Write
from tests.reliability.lease.ledgers import command_of
from tests.reliability.ledger import Outcome
from tests.support.machines.following import Follower, NoReply, Reply

R = TypeVar("R")
_PATIENCE_S: Final = 20.0
_WAIT_S: Final = 2.0
_PAUSE_S: Final = (0.0, 0.05, 0.2)
# jobs that are looked at
_RECENT: Final = 10
_LEAST_LIMIT: Final = 100


class Client:
    """Acts at random. Args: number: of this client, from 0 on; count: of all."""

    def __init__(self, folder: Path, notes: Notes, name: str, seed: str) -> None:
        self._folder, self._notes, self._name = folder, notes, name
        self._chance = random.Random(seed)
        self._nodes = read_nodes(folder)
        self._follower = Follower(list(self._nodes.items()))
        self._recent: list[int] = []
        # jobs of which the state was told last
        self._filters: list[str] = []
        self._tags: list[str] = []
        self._count = 0
        # of submissions that have had no answer: they are sent again
        self._unanswered: list[tuple[Submit, tuple[tuple[dict[str, object], ...], ...]]] = []

    def act(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self._submit: 10,
            self._look: 8,
            self._wait: 4,
            self._cancel: 2,
            self._write_filter: 1,
            self._delete_filter: 1,
            self._add_tag: 1,
            self._remove_tag: 1,
            self._limit: 1,
            self._read: 3,
        }
        self._chance.choices(list(acts), list(acts.values()))[0]()

    def settle(self) -> None:
        """Send again what has had no answer."""
        for asked, jobs in self._unanswered:
            self._send(asked, jobs)

    def _submit(self) -> None:
        if self._unanswered and self._chance.random() < 0.5:
            self._send(*self._unanswered.pop())
            return
        key = self._new("k")
        tokens = tuple(f"{key}.{number}" for number in range(self._chance.randint(1, 3)))
        jobs = tuple((command_of(self._folder, token, self._chance, list(self._nodes)),) for token in tokens)
        self._send(Submit(key, tokens), jobs)

    def _send(self, asked: Submit, jobs: tuple[tuple[dict[str, object], ...], ...]) -> None:
        told = self._exchange(asked, lambda: self._luxi(SubmitManyJobs(jobs, asked.key)), _ids)
        if told.is_sure:
            assert isinstance(told.answer, tuple)
            self._recent = [*self._recent, *told.answer][-_RECENT:]
        elif told.outcome is Outcome.UNKNOWN:
            self._unanswered.append((asked, jobs))

    def _look(self) -> None:
        if self._recent:
            job_id = self._chance.choice(self._recent)
            self._exchange(Look(job_id), lambda: self._luxi(QueryJobs((JobId(job_id),), ("status",))), _state)

    def _wait(self) -> None:
        if not self._recent:
            return
        job_id = self._chance.choice(self._recent)
        known: list[object] = ["no state"]
        wait = WaitForJobChange(JobId(job_id), ("status",), known, None, _WAIT_S)
        self._exchange(Look(job_id), lambda: self._luxi(wait), lambda change: change.values[0])

    def _cancel(self) -> None:
        if self._recent:
            job_id = self._chance.choice(self._recent)
            self._exchange(Cancel(job_id), lambda: self._luxi(CancelJob(JobId(job_id))), lambda done: done.is_done)

    def _write_filter(self) -> None:
        self._count += 1
        if not self._filters or self._chance.random() < 0.5:
            self._filters.append(str(uuid.UUID(int=self._chance.getrandbits(128))))
        name = self._chance.choice(self._filters)
        # it applies to no job
        nothing = (["jobid", ["=", "id", -1]],)
        request = ReplaceFilter(name, 1000 + self._count, nothing, "CONTINUE", ())
        self._exchange(Write(f"filter {name}", 1000 + self._count), lambda: self._luxi(request))

    def _delete_filter(self) -> None:
        if self._filters:
            name = self._filters.pop(self._chance.randrange(len(self._filters)))
            self._exchange(Write(f"filter {name}", None), lambda: self._luxi(DeleteFilter(name)), gone_is_well=True)

    def _add_tag(self) -> None:
        tag = self._new("tag")
        self._tags.append(tag)
        self._change_tags(Write(f"tag {tag}", True), added=(tag,))

    def _remove_tag(self) -> None:
        if self._tags:
            tag = self._tags.pop(self._chance.randrange(len(self._tags)))
            self._change_tags(Write(f"tag {tag}", None), removed=(tag,))

    def _change_tags(self, asked: Write, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        request = ChangeTags(kind=TagKind.CLUSTER, uuid="", added=added, removed=removed)
        self._exchange(asked, lambda: self._wconf(request), must=True)

    def _limit(self) -> None:
        self._count += 1
        # no other client has it
        limit = (_LEAST_LIMIT + self._count) * 10 + int(self._name[1:])
        self._exchange(Write("limit", limit), lambda: self._wconf(ChangeJobLimits(None, limit)), must=True)

    def _read(self) -> None:
        """Read all that this client, and others, have written."""
        began = time.monotonic_ns()
        try:
            reply = self._wconf(ReadConfig())
        except (NoReply, RemoteError):
            return
        ended = time.monotonic_ns()
        things = things_of(reply.value)
        names = {
            "limit",
            *(name for name in things if self._name in name),
            *(f"filter {name}" for name in self._filters),
            *(f"tag {tag}" for tag in self._tags),
        }
        for name in names:
            self._notes.add(Told(self._name, Read(name), began, ended, Outcome.ANSWERED, things.get(name), reply.by))

    def _exchange(
        self,
        asked: Asked,
        ask: Callable[[], Reply[Any]],
        read: Callable[[Any], object] = lambda value: value,
        *,
        must: bool = False,
        gone_is_well: bool = False,
    ) -> Told:
        """Ask, and note what came. Args: must: whether a false answer is a refusal."""
        began = time.monotonic_ns()
        try:
            reply = ask()
        except NoReply:
            told = Told(self._name, asked, began, time.monotonic_ns(), Outcome.UNKNOWN)
        except RemoteError as error:
            is_well = gone_is_well and error.code == "not_found"
            outcome = Outcome.ANSWERED if is_well else Outcome.REFUSED
            told = Told(self._name, asked, began, time.monotonic_ns(), outcome, f"{error.code}: {error.message}")
        else:
            value = read(reply.value)
            outcome = Outcome.REFUSED if must and value is False else Outcome.ANSWERED
            told = Told(self._name, asked, began, time.monotonic_ns(), outcome, value, reply.by)
        self._notes.add(told)
        return told

    def _luxi(self, request: Request[R]) -> Reply[R]:
        return self._follower.luxi(request, _PATIENCE_S)

    def _wconf(self, request: Request[R]) -> Reply[R]:
        return self._follower.wconf(request, _PATIENCE_S)

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{self._name}-{kind}{self._count}"


def _ids(answers: Any) -> tuple[int, ...]:
    assert all(isinstance(each, Accepted) for each in answers), answers
    return tuple(int(each.job_id) for each in answers)


def _state(rows: Any) -> object:
    return None if rows[0] is None else rows[0][0]


def things_of(config: Any) -> dict[str, object]:
    """All that clients write, by name."""
    cluster = config["cluster"]
    return {
        "limit": cluster["max_tracked_jobs"],
        **{f"tag {tag}": True for tag in cluster["tags"]},
        **{f"filter {name}": rule["priority"] for name, rule in config["filters"].items()},
    }


def read_nodes(folder: Path) -> dict[str, Paths]:
    rows = (line.split(" ", 1) for line in (folder / "nodes").read_text().splitlines())
    return {name: Paths.under_root(Path(root)) for name, root in rows}


def main(folder: Path, name: str, seed: str) -> None:
    chance = random.Random(f"{seed} of the pauses")
    with Notes(folder / f"told-{name}") as notes:
        client = Client(folder, notes, name, seed)
        while not (folder / "stop").exists():
            client.act()
            time.sleep(chance.choice(_PAUSE_S))
        client.settle()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
