"""An entry is only forgotten when every fresh candidate has that version, whatever fails (DESIGN section 14)."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from common.replica.entries import DirtyEntries
from daemons.luxid.core.copies.backlog import Backlog, Key, QueueFact, SendBatch, StateName
from daemons.luxid.core.copies.etcdentries import CandidateStatus, Marks, changed, changes_of

KEYS: tuple[Key, ...] = (JobId(1), JobId(2), QueueFact.SERIAL, StateName("submissions/key"))
NAMES = ("node2", "node3")
EPOCH = 3
STALE_S = 10.0


def keys_of(batch: SendBatch) -> list[Key]:
    keys: list[Key] = [*batch.facts]
    keys.extend(batch.jobs)
    keys.extend(batch.states)
    return keys


class Candidate:
    """A node with versions of files, and what the master knows of it."""

    def __init__(self) -> None:
        self.backlog = Backlog(is_new=False)
        self.has: dict[Key, int] = {}
        self.away_s = 0.0
        self.under_way: tuple[SendBatch, dict[Key, int]] | None = None


class Story:
    """A master that changes files, candidates that fail at will, etcd, and a naive twin that knows every version."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.draw = draw
        self.entries = DirtyEntries[Key]()
        self.nodes = {name: Candidate() for name in NAMES}
        self.marks = Marks({NAMES[0]: EPOCH - 1}, frozenset())
        # versions of the files here, and of the entries in etcd, by their revisions
        self.here: dict[Key, int] = {}
        self.etcd: dict[Key, int] = {}
        self.version_at: dict[int, int] = {}
        self.running: set[JobId] = set()
        self.revision = self.number = self.version = 0
        self.committed: list[Key] = []

    def step(self) -> None:
        steps = (self.commit, self.commit, self.make, self.make, self.appear, self.take, self.arrive, self.arrive)
        more = (self.fail, self.compare, self.compare, self.mark, self.forget, self.forget, self.job, self.away)
        (*steps, *more)[self.draw(st.integers(0, len(steps) + len(more) - 1))]()

    def key(self) -> Key:
        return KEYS[self.draw(st.integers(0, len(KEYS) - 1))]

    def node(self) -> Candidate:
        return self.nodes[NAMES[self.draw(st.integers(0, len(NAMES) - 1))]]

    def commit(self) -> None:
        key = self.key()
        if key in self.committed:
            return
        self.revision += 1
        self.version += 1
        self.version_at[self.revision] = self.etcd[key] = self.version
        self.entries.committed([key], self.revision)
        self.committed.append(key)

    def make(self) -> None:
        if self.committed:
            key: Key = self.committed.pop(0)
            self.here[key] = self.etcd[key]
            self.entries.made([key], self.note(key))

    def appear(self) -> None:
        """A process writes the file of a job, without a commit."""
        key = self.key()
        if key not in self.committed and key in self.here:
            self.entries.changed([key], self.note(key))

    def note(self, key: Key) -> int:
        self.number += 1
        for node in self.nodes.values():
            node.backlog.changed(key, self.number)
        return self.number

    def take(self) -> None:
        node = self.node()
        batch = node.backlog.take(2)
        keys = keys_of(batch)
        node.under_way = batch, {key: self.here[key] for key in keys if key in self.here}

    def arrive(self) -> None:
        node = self.node()
        if node.under_way is not None:
            batch, contents = node.under_way
            node.under_way, node.away_s = None, 0.0
            node.has |= contents
            for key in keys_of(batch):
                node.backlog.arrived(batch, key)

    def fail(self) -> None:
        node = self.node()
        if node.under_way is not None:
            node.under_way = None
            node.backlog.doubt()

    def away(self) -> None:
        node = self.node()
        node.under_way = None
        node.away_s += 4.0

    def compare(self) -> None:
        node = self.node()
        if node.under_way is not None:
            return
        node.away_s = 0.0
        node.backlog.begin_comparison()
        for key, version in self.here.items():
            if node.has.get(key) != version:
                node.backlog.differs(key)
        node.backlog.compared()

    def job(self) -> None:
        self.running ^= {JobId(1)}

    def mark(self) -> None:
        standings = [
            CandidateStatus(name, not node.away_s and self.is_complete(node), node.away_s)
            for name, node in self.nodes.items()
        ]
        changes = changes_of(standings, self.marks, EPOCH, STALE_S)
        for name in changes.synced:
            # the naive twin: what it lacks is in etcd
            for key, version in self.here.items():
                assert self.nodes[name].has.get(key) == version or self.etcd.get(key, 0) >= version
        self.marks = changed(self.marks, changes, EPOCH)

    def is_complete(self, node: Candidate) -> bool:
        return node.backlog.is_compared and all(key in self.entries for key in node.backlog.keys)

    def forget(self) -> None:
        fresh = [self.nodes[name] for name in self.marks.fresh]

        def holds(key: Key, number: int) -> bool:
            return all(node.backlog.is_compared and not node.backlog.lacks((key,), number) for node in fresh)

        found = self.entries.forgettable(KEYS, holds, self.running)
        for key, revision in found.items():
            # the naive twin: everybody has this version, or a later one, and here it is made
            assert key not in self.running
            assert self.here.get(key, 0) >= self.version_at[revision]
            assert all(node.has.get(key, 0) >= self.version_at[revision] for node in fresh)
            assert self.version_at[revision] == self.etcd.pop(key)
        self.entries.forgotten(found)

    def end(self) -> None:
        """Nothing fails any more: then nothing is left."""
        self.running.clear()
        while self.committed:
            self.make()
        for node in self.nodes.values():
            node.under_way, node.away_s = None, 0.0
            node.backlog.begin_comparison()
            for key, version in self.here.items():
                if node.has.get(key) != version:
                    node.backlog.differs(key)
            node.backlog.compared()
            while not (batch := node.backlog.take(2)).is_empty:
                keys = keys_of(batch)
                node.has |= {key: self.here[key] for key in keys if key in self.here}
                for key in keys:
                    node.backlog.arrived(batch, key)
        self.mark()
        assert self.marks.fresh == frozenset(NAMES)
        self.forget()
        assert len(self.entries) == 0
        assert all(node.has == self.here for node in self.nodes.values())


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_fresh_candidate_ever_lacks_what_is_forgotten(data: st.DataObject) -> None:
    story = Story(data.draw)
    for _ in range(60):
        story.step()
    story.end()
