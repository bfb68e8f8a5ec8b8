"""The graph of waits against a naive twin (DESIGN section 6, "Explain")."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.ids import JobId
from daemons.luxid.core.why.blockers import DirectWaits, HeldLock, LockOwner
from daemons.luxid.core.why.waitgraph import walk
from protocol.luxi.why import WaitGraph

COUNT = 14
STEPS = 10_000


@attrs.frozen
class Case:
    # job -> jobs for whose end it waits
    targets: Mapping[JobId, frozenset[JobId]]
    # job -> locks that it waits for
    locks: Mapping[LockOwner, Sequence[HeldLock]]
    # job -> ended jobs
    over: Mapping[JobId, Sequence[JobId]]

    @property
    def waits(self) -> DirectWaits:
        dependents: dict[JobId, set[JobId]] = defaultdict(set)
        for job_id, others in self.targets.items():
            for other in others:
                dependents[other].add(job_id)
        return DirectWaits(dependents, self.targets, self.locks, (), lambda _: (), lambda _: None)

    def ahead(self, job_id: int) -> set[tuple[int, str]]:
        waited = {(int(each), "") for each in self.targets.get(JobId(job_id), ())}
        return waited | {(int(each.holder), each.lock) for each in self.locks.get(JobId(job_id), ())}

    def behind(self, job_id: int) -> set[int]:
        return {each for each in range(1, COUNT + 1) if any(other == job_id for other, _ in self.ahead(each))}

    def reached(self, start: int) -> set[int]:
        found, left = {start}, [start]
        while left:
            fresh = {other for other, _ in self.ahead(left.pop())} - found
            found |= fresh
            left += fresh
        return found

    def distance(self, start: int, end: int) -> int:
        heads, count = {start}, 0
        while end not in heads:
            heads = {other for head in heads for other, _ in self.ahead(head)}
            count += 1
        return count


@st.composite
def cases(draw: st.DrawFn) -> Case:
    jobs = st.integers(1, COUNT)
    # dependencies lead to older jobs, as those of real jobs; locks lead anywhere, so there may be rings
    pairs = draw(st.sets(st.tuples(jobs, jobs), max_size=40))
    targets: dict[JobId, set[JobId]] = defaultdict(set)
    for one, other in pairs:
        if one != other:
            targets[JobId(max(one, other))].add(JobId(min(one, other)))
    held = draw(st.sets(st.tuples(jobs, st.sampled_from(["node/a", "node/b"]), jobs), max_size=6))
    locks: dict[LockOwner, list[HeldLock]] = defaultdict(list)
    for waiter, lock, holder in sorted(held):
        if waiter != holder:
            locks[JobId(waiter)].append(HeldLock(lock, JobId(holder)))
    ended = draw(st.dictionaries(jobs, st.sets(st.integers(101, 105), min_size=1), max_size=4))
    return Case(
        {job_id: frozenset(others) for job_id, others in targets.items()},
        dict(locks),
        {JobId(each): tuple(map(JobId, sorted(others))) for each, others in ended.items()},
    )


def walked(case: Case, starts: Sequence[int], most: int, most_edges: int) -> WaitGraph:
    return walk(
        case.waits, tuple(map(JobId, starts)), most, most_edges, STEPS, lambda job_id: case.over.get(job_id, ())
    )


@given(cases(), st.lists(st.integers(1, COUNT), min_size=1, max_size=5), st.integers(2, 20), st.integers(0, 30))
def test_nothing_is_lost_and_the_reason_is_always_there(
    case: Case, starts: list[int], most: int, most_edges: int
) -> None:
    graph = walked(case, starts, most, most_edges)

    ids = [int(node.name) for node in graph.nodes]
    assert len(set(ids)) == len(ids) <= most
    assert not graph.is_partial
    ahead: dict[int, list[int]] = defaultdict(list)
    for place, (job_id, node) in enumerate(zip(ids, graph.nodes, strict=True)):
        if job_id > 100:
            assert not any(edge.waiter == place for edge in graph.edges)
            continue
        edges = [edge for edge in graph.edges if edge.waiter == place and not edge.is_over]
        direct = {(ids[edge.holder], edge.lock) for edge in edges if not edge.skipped}
        # each edge is a wait, each wait is an edge or is counted, and a step that skips stands for one
        assert direct <= case.ahead(job_id)
        assert len(edges) + node.more_ahead == len(case.ahead(job_id))
        over = {ids[edge.holder] for edge in graph.edges if edge.waiter == place and edge.is_over}
        assert over <= set(case.over.get(JobId(job_id), ()))
        assert len(over) + node.more_ended == len(case.over.get(JobId(job_id), ()))
        into = [edge for edge in graph.edges if edge.holder == place]
        waiters = {ids[edge.waiter] for edge in into if not edge.skipped}
        assert len(waiters) + len([edge for edge in into if edge.skipped]) + node.more_behind == len(
            case.behind(job_id)
        )
        for edge in edges:
            if edge.skipped:
                assert ids[edge.holder] in case.reached(job_id)
                assert edge.skipped + 1 >= case.distance(job_id, ids[edge.holder])
        ahead[job_id] = [ids[edge.holder] for edge in edges]
    shown = {start for start in starts if start in ids}
    assert len(set(starts) - shown) == graph.left_out
    for start in shown:
        roots = {each for each in case.reached(start) if not case.ahead(each)}
        found, left = {start}, [start]
        while left:
            fresh = set(ahead[left.pop()]) - found
            found |= fresh
            left += fresh
        # the way to one of the roots is there, whatever was left out
        assert not roots or roots & found


@given(cases(), st.integers(1, COUNT))
def test_with_room_enough_all_that_is_ahead_is_there(case: Case, start: int) -> None:
    graph = walked(case, [start], 100, 1000)

    assert case.reached(start) <= {int(node.name) for node in graph.nodes}
    assert all(node.more_ahead == node.more_ended == 0 for node in graph.nodes)
    assert not any(edge.skipped for edge in graph.edges)
