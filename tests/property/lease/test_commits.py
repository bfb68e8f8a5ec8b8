"""Whatever becomes of requests to etcd, each commit has its effect once, in its place (DESIGN 14; lease.md 9)."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Unavailable
from common.lease.changes import MOST_BYTES, KeyChange
from common.lease.records import EtcdKeys
from protocol.etcd.commits import Commits
from tests.support.etcds.reigns import deadline_of, reign
from tests.support.naive.etcd import NaiveEtcd

KEYS = EtcdKeys("/g/")
NAMES = st.sampled_from([f"{KEYS.dirty}{name}" for name in "ab"])
VALUES = st.none() | st.sampled_from([b"", b"1", b"\0two", b"3" * 500, b"4" * (MOST_BYTES + 1)])
CHANGES = st.lists(st.builds(KeyChange, NAMES, VALUES), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), CHANGES),
        st.tuples(st.just("forget"), NAMES),
        st.tuples(st.sampled_from(["late", "full", "room", "restart"]), st.none()),
    ),
    max_size=14,
)
FATES = st.lists(st.sampled_from(["done", "done", "lost", "late", "late", "dropped"]), max_size=30)


class Story:
    """A daemon, a dictionary that does the same, and etcd between good and bad."""

    def __init__(self, fates: list[str]) -> None:
        self._fates = fates
        self.etcd = NaiveEtcd(lambda: self._fates.pop() if self._fates else "done")
        self.twin: dict[str, bytes] = {}
        self.revisions: dict[str, int] = {}

    async def run(self, steps: list[tuple[str, object]], folder: Path) -> None:
        fates, self._fates = self._fates, []
        fence = await reign(self.etcd, KEYS)
        self._fates = fates
        left = list(steps)
        with deadline_of(folder) as (deadline, _):
            while True:
                async with trio.open_nursery() as nursery:
                    commits = Commits(self.etcd, KEYS, fence, deadline, writer="luxid")
                    await nursery.start(commits.run)
                    await self._until_restart(commits, left)
                    nursery.cancel_scope.cancel()
                if not left:
                    return

    async def _until_restart(self, commits: Commits, left: list[tuple[str, object]]) -> None:
        while left:
            step, given = left.pop(0)
            match step:
                case "commit":
                    await self._commit(commits, given)  # type: ignore[arg-type]
                case "forget":
                    key = str(given)
                    await commits.forget({key: self.revisions.get(key, 7)})
                    self.twin.pop(key, None)
                case "late":
                    self.etcd.deliver_late()
                case "restart":
                    return
                case _:
                    # room only when nothing waits to be late: see the next test
                    self.etcd.is_full = step == "full" and not self.etcd.late
            await self._compare(commits)

    async def _commit(self, commits: Commits, changes: list[KeyChange]) -> None:
        try:
            revision = await commits.commit(changes)
        except Unavailable:
            assert self.etcd.is_full
            return
        for change in changes:
            self.revisions[change.key] = revision
            if change.value is None:
                self.twin.pop(change.key, None)
            else:
                self.twin[change.key] = change.value

    async def _compare(self, commits: Commits) -> None:
        await trio.testing.wait_all_tasks_blocked()
        found = await commits.read([KEYS.dirty])
        assert {key: entry.value for key, entry in found.entries.items()} == self.twin
        assert {key: entry.revision for key, entry in found.entries.items()} == _of(self.revisions, self.twin)


def _of(revisions: Mapping[str, int], twin: Mapping[str, bytes]) -> Mapping[str, int]:
    return {key: revisions[key] for key in twin}


def test_what_arrives_late_has_no_effect() -> None:
    # from the end: the claim, the first commit twice, the second one
    story = Story(["done", "done", "late", "done"])
    steps: list[tuple[str, object]] = [("commit", [KeyChange(f"{KEYS.dirty}a", each)]) for each in (b"1", b"2")]

    with tempfile.TemporaryDirectory() as folder:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(story.run, [*steps, ("late", None), *steps, ("late", None)], Path(folder), clock=clock)

    assert len(story.etcd.transactions) > len(steps) + 2


@given(STEPS, FATES)
def test_each_commit_has_its_effect_once(steps: list[tuple[str, object]], fates: list[str]) -> None:
    story = Story(fates)
    with tempfile.TemporaryDirectory() as folder:
        trio.run(story.run, steps, Path(folder), clock=trio.testing.MockClock(autojump_threshold=0))


@given(STEPS, FATES)
def test_no_parts_stay_that_nothing_points_to(steps: list[tuple[str, object]], fates: list[str]) -> None:
    story = Story(fates)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        clear: list[tuple[str, object]] = [("late", None), ("room", None), ("restart", None)]
        forget: list[tuple[str, object]] = [("forget", f"{KEYS.dirty}{name}") for name in "abc"]
        trio.run(story.run, [*steps, *clear, *forget], path, clock=trio.testing.MockClock(autojump_threshold=0))

    left = [key for key in story.etcd.values if key.startswith(KEYS.parts)]
    assert left == []
    assert story.twin == {}
