"""The backlog of a node: whatever changes and whatever fails, in the end the node has what the master has."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from daemons.luxid.core.copies.backlog import Backlog, JobDigest, Key, QueueFact, SendBatch, StateName, differing

JOBS = 6
NAMES = [StateName(f"submissions/{number}") for number in range(3)]
K = TypeVar("K", JobId, QueueFact, StateName)


class Files:
    """The queue's files of one node, with the calls of a node daemon."""

    def __init__(self) -> None:
        self.live: dict[JobId, str] = {}
        self.archive: dict[JobId, str] = {}
        self.facts: dict[QueueFact, str] = {}
        self.states: dict[StateName, str] = {}

    def write(self, jobs: Mapping[JobId, str], states: Mapping[StateName, str]) -> bool:
        self.live |= jobs
        self.states |= states
        return True

    def remove(self, jobs: Iterable[JobId], states: Iterable[StateName]) -> bool:
        for job_id in jobs:
            self.live.pop(job_id, None)
            self.archive.pop(job_id, None)
        for name in states:
            self.states.pop(name, None)
        return True

    def move(self, job_ids: Iterable[JobId]) -> bool:
        """Stops at the first that is missing, and earlier moves stay."""
        for job_id in job_ids:
            if job_id not in self.live:
                return False
            self.archive[job_id] = self.live.pop(job_id)
        return True

    def purge(self) -> bool:
        self.live.clear()
        self.facts.clear()
        return True

    def has_of(self, job_id: JobId) -> tuple[str, bool] | None:
        """Content, and whether it is archived."""
        if job_id in self.live:
            return self.live[job_id], False
        return (self.archive[job_id], True) if job_id in self.archive else None


class Story:
    """A master that changes, a node that fails at will, and the backlog between them."""

    def __init__(self, data: st.DataObject, *, is_new: bool, is_ours: bool) -> None:
        self.draw: Callable[[st.SearchStrategy[int]], int] = data.draw
        self.master, self.node = Files(), Files()
        self.is_ours = is_ours
        self.backlog = self.new_backlog(is_new=is_new)
        self.numbers = itertools.count(1)
        self.contents = itertools.count(1)
        self.next_id = itertools.count(1)
        self.fails = True
        self.listing: Iterator[JobId] | None = None
        # calls that were given up, and that the node carries out late, but before it is purged or compared
        self.late: list[Callable[[], bool]] = []

    def new_backlog(self, *, is_new: bool) -> Backlog:
        backlog = Backlog(is_new=is_new)
        if not self.is_ours:
            backlog.is_of_ganeti()
        return backlog

    def change(self) -> None:
        number, what = next(self.numbers), self.draw(st.integers(0, 8))
        ids = sorted(self.master.live)
        job_id = ids[self.draw(st.integers(0, len(ids) - 1))] if ids else None
        if what <= 1 and len(self.master.live) < JOBS:
            new = JobId(next(self.next_id))
            self.write(new, number)
        elif what == 2 and job_id is not None:
            self.write(job_id, number)
        elif what == 3 and job_id is not None:
            self.master.move([job_id])
            self.backlog.archived(job_id, number)
        elif what == 4 and job_id is not None:
            del self.master.live[job_id]
            self.backlog.removed(job_id, number)
        elif what == 5:
            name = NAMES[self.draw(st.integers(0, len(NAMES) - 1))]
            self.master.states[name] = f"text {number}"
            self.backlog.changed(name, number)
        elif what == 6 and self.master.states:
            name = sorted(self.master.states)[0]
            del self.master.states[name]
            self.backlog.discarded(name, number)
        else:
            fact = list(QueueFact)[self.draw(st.integers(0, len(QueueFact) - 1))]
            self.master.facts[fact] = f"text {number}"
            self.backlog.changed(fact, number)

    def write(self, job_id: JobId, number: int) -> None:
        self.master.live[job_id] = f"content {next(self.contents)}"
        self.backlog.changed(job_id, number)

    def call(self, act: Callable[[], bool]) -> bool:
        """Whether a call has succeeded: it may fail before the node acts, its reply may be lost, or it may act late."""
        fate = self.draw(st.integers(0, 4)) if self.fails else 0
        for _ in range(self.draw(st.integers(0, 1)) if self.fails else 0):
            self.change()
        if fate == 1:
            return False
        if fate in (2, 3):
            self.backlog.doubt()
            self.listing = None
        if fate == 3:
            self.late.append(act)
            return False
        is_done = act()
        if self.fails and self.draw(st.booleans()):
            self.carry_out_late_calls()
        return is_done and fate != 2

    def carry_out_late_calls(self) -> None:
        while self.late:
            self.late.pop(0)()

    def step(self) -> None:
        """What the shell does."""
        if self.backlog.needs_purge:
            self.carry_out_late_calls()
            if self.call(self.node.purge):
                self.backlog.purged()
                self.listing = None
        elif not (batch := self.backlog.take(2)).is_empty:
            self.send(batch)
        elif self.backlog.needs_comparison:
            self.compare()

    def send(self, batch: SendBatch) -> None:
        for fact in batch.facts:
            if not self.call(partial(_set, self.node.facts, fact, self.master.facts.get(fact, ""))):
                return
            self.backlog.arrived(batch, fact)
        if self.is_ours:
            self.send_together(batch)
            return
        moves = []
        found = {job_id: self.master.has_of(job_id) for job_id in batch.jobs}
        for job_id, has in found.items():
            if has is None:
                self.backlog.gone(batch, job_id)
        self.backlog.seen(job_id for job_id, has in found.items() if has is not None)
        for job_id, has in found.items():
            if has is None:
                continue
            content, is_archived = has
            is_sent = batch.jobs[job_id] or not is_archived
            if is_sent and not self.call(partial(_set, self.node.live, job_id, content)):
                self.backlog.postpone([job_id])
                continue
            if is_archived:
                moves.append(job_id)
            else:
                self.backlog.arrived(batch, job_id)
        if not moves:
            return
        if not self.call(lambda: self.node.move(moves)):
            self.backlog.not_moved(moves)
            return
        for job_id in moves:
            self.backlog.arrived(batch, job_id)

    def send_together(self, batch: SendBatch) -> None:
        found = {job_id: has for job_id in batch.jobs if (has := self.master.has_of(job_id)) is not None}
        states = {name: self.master.states[name] for name in batch.states if name in self.master.states}
        contents = {
            job_id: content for job_id, (content, is_archived) in found.items() if batch.jobs[job_id] or not is_archived
        }
        moves = [job_id for job_id, (_, is_archived) in found.items() if is_archived]
        if not self.call(lambda: self.node.write(contents, states)):
            self.backlog.postpone([*contents, *states])
            return
        arrived: list[Key] = [*states, *(job_id for job_id in found if job_id not in moves)]
        for key in arrived:
            self.backlog.arrived(batch, key)
        if moves and not self.call(lambda: self.node.move(moves)):
            self.backlog.not_moved(moves)
            return
        for job_id in moves:
            self.backlog.arrived(batch, job_id)
        gone = [job_id for job_id in batch.jobs if job_id not in found]
        discarded = [name for name in batch.states if name not in states]
        if (gone or discarded) and not self.call(lambda: self.node.remove(gone, discarded)):
            return
        removed: list[Key] = [*gone, *discarded]
        for key in removed:
            self.backlog.arrived(batch, key)

    def compare_rest(self) -> bool:
        """Files of ours that differ, and strangers. Whether the strangers could be removed."""
        for name in self.master.states:
            if self.node.states.get(name) != self.master.states[name]:
                self.backlog.differs(name)
        jobs = [job_id for job_id in [*self.node.live, *self.node.archive] if self.master.has_of(job_id) is None]
        stale = [job_id for job_id in self.node.archive if job_id in self.master.live]
        names = [name for name in self.node.states if name not in self.master.states]
        self.node.remove([], [])
        for job_id in stale:
            self.node.archive.pop(job_id)
        return self.call(lambda: self.node.remove(jobs, names))

    def compare(self) -> None:
        if self.listing is None:
            self.carry_out_late_calls()
            self.listing = iter([*self.master.live, *self.master.archive])
            self.backlog.begin_comparison()
            return
        job_id = next(self.listing, None)
        if job_id is None:
            if self.is_ours and not self.compare_rest():
                # the next step lists again
                self.listing = self.listing if self.listing is None else iter(())
                return
            self.listing = None
            self.backlog.compared()
            return
        has = self.master.has_of(job_id)
        masters = {} if has is None else {job_id: JobDigest(*has)}
        for lacking, needs_content in differing(masters, self.node.live, self.node.archive).items():
            self.backlog.differs(lacking, needs_content=needs_content)
        self.backlog.seen([job_id])


def _set(files: dict[K, str], key: K, content: str) -> bool:
    files[key] = content
    return True


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_node_has_everything_in_the_end(data: st.DataObject) -> None:
    is_new, is_ours = data.draw(st.booleans()), data.draw(st.booleans())
    story = Story(data, is_new=is_new, is_ours=is_ours)
    # what luxid finds at its start, and what the node has from before
    for _ in range(data.draw(st.integers(0, 8))):
        story.change()
    if not is_new:
        story.backlog = story.new_backlog(is_new=False)
        for job_id, content in [*story.master.live.items(), *story.master.archive.items()]:
            if data.draw(st.booleans()):
                story.node.live[job_id] = content if data.draw(st.booleans()) else "old content"
    else:
        story.node.live = {JobId(1000): "a job that nobody remembers"}
    if is_ours:
        story.node.live[JobId(2000)] = "another one"
        story.node.states[StateName("submissions/of-old")] = "a key that nobody remembers"
    for _ in range(data.draw(st.integers(0, 30))):
        if data.draw(st.booleans()):
            story.change()
        else:
            story.step()

    story.fails = False
    steps = 0
    while not story.backlog.is_empty:
        story.step()
        steps += 1
        assert steps < 1000, "the backlog is never empty"

    assert story.node.live == story.master.live
    assert {id: story.node.archive.get(id) for id in story.master.archive} == story.master.archive
    assert story.node.states == (story.master.states if is_ours else {})
    assert {fact: story.node.facts.get(fact, "") for fact in QueueFact} == {
        fact: story.master.facts.get(fact, "") for fact in QueueFact
    }
