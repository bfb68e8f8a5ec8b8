"""The ranking of blockers against a twin that follows every wait of every job.

Source: DESIGN section 6, "Explain"; `daemons.luxid.core.why.blockers`.
"""

from collections.abc import Iterator

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.ids import JobId
from daemons.luxid.core.why.blockers import DirectWaits, Gate, HeldLock, LockOwner, rank, way_from
from protocol.luxi.why import Blocker, BlockerKind, LongWait

MOST = 100
PLENTY = 10_000
OUTSIDER = "outsider"


@attrs.frozen
class Twin:
    """All waits as pairs of names; a gate is named as it is, a job by its number."""

    waits: DirectWaits
    at_gates: dict[int, tuple[Gate, ...]]

    @staticmethod
    def of(seeds: "Seeds") -> "Twin":
        running, ready = range(1, seeds.running + 1), range(seeds.running + 1, seeds.running + seeds.ready + 1)
        blocked = range(ready.stop, ready.stop + len(seeds.depends))
        locks: dict[LockOwner, tuple[HeldLock, ...]] = {}
        for waiter, holder in seeds.locks:
            # the one number too many is an owner that is no job
            mine, other = (
                OUTSIDER if each % (seeds.running + 1) == seeds.running else JobId(1 + each % (seeds.running + 1))
                for each in (waiter, holder)
            )
            if mine != other:
                locks[mine] = (*locks.get(mine, ()), HeldLock(f"node/n{len(locks)}", other))
        targets = {JobId(each): {JobId(1 + n % (each - 1)) for n in ns}
                   for each, ns in zip(blocked, seeds.depends, strict=True)}  # fmt: skip
        dependents: dict[JobId, set[JobId]] = {}
        for each, named in targets.items():
            for target in named:
                dependents.setdefault(target, set()).add(each)
        waiting_at = {job_id: {n % len(seeds.gates) for n in seeds.at[at % len(seeds.at)]} if seeds.gates else set()
                      for at, job_id in enumerate(ready)}  # fmt: skip
        gates = []
        for number, members in enumerate(seeds.gates):
            held = [job_id for job_id, numbers in waiting_at.items() if number in numbers]
            places = tuple(sorted({JobId(1 + n % seeds.running) for n in members}))
            first = JobId(held[0]) if held else None
            gates.append(Gate(BlockerKind.BUCKET, f"{number}", len(held), first, places, len(places), len(places)))
        at_gates = {job_id: tuple(gates[n] for n in sorted(numbers)) for job_id, numbers in waiting_at.items()}
        del running
        waits = DirectWaits(dependents, targets, locks, tuple(gates), lambda job_id: at_gates.get(job_id, ()), float)
        return Twin(waits, at_gates)

    def ahead(self, node: object) -> set[object]:
        """What a job, or a gate, waits for directly."""
        if isinstance(node, Gate):
            going_on = [each for each in node.members if each not in self.waits.locks]
            return set(going_on if len(going_on) == 1 else [] if going_on else node.members)
        owner = node if isinstance(node, str) else JobId(node) if isinstance(node, int) else None
        by_locks: set[object] = (
            {each.holder for each in self.waits.locks.get(owner, ())} if owner is not None else set()
        )
        if not isinstance(node, int):
            return by_locks
        return {*by_locks, *self.waits.targets.get(JobId(node), ()), *self.at_gates.get(node, ())}

    def reached(self, start: object) -> set[object]:
        """All to which the waits of one lead."""
        found: set[object] = set()
        left = [start]
        while left:
            new = self.ahead(left.pop()) - found
            found |= new
            left += new
        return found

    def jobs(self) -> Iterator[int]:
        yield from (owner for owner in self.waits.locks if not isinstance(owner, str))
        yield from self.waits.targets
        yield from self.at_gates

    def behind(self) -> dict[object, set[int]]:
        """Root -> jobs whose waits lead to it."""
        found: dict[object, set[int]] = {}
        for job_id in self.jobs():
            for node in self.reached(job_id):
                if not self.ahead(node):
                    found.setdefault(node, set()).add(job_id)
        return found

    def node(self, kind: BlockerKind, name: str) -> object:
        if kind is BlockerKind.BUCKET:
            return self.waits.gates[int(name)]
        return int(name) if kind in (BlockerKind.JOB, BlockerKind.RING) else name

    def check_way(self, wait: LongWait, end: object) -> None:
        """Each step is a direct wait, and the last one leads to this end. Chains are short here: none is left out."""
        at: object = wait.job_id
        nodes = [self.node(step.kind, step.name) for step in wait.way]
        assert wait.left_out == 0 or len(nodes) == 6
        for node in nodes[: 3 if wait.left_out else None]:
            assert node in self.ahead(at)
            at = node
        assert nodes[-1] == end


@attrs.frozen
class Seeds:
    running: int
    ready: int
    # for each blocked job numbers of those that it waits for
    depends: list[list[int]]
    # waiter and holder
    locks: list[tuple[int, int]]
    # members of each gate, and the gates of ready jobs
    gates: list[list[int]]
    at: list[list[int]]


number = st.integers(0, 30)
seeds = st.builds(
    Seeds,
    st.integers(1, 7),
    st.integers(0, 6),
    st.lists(st.lists(number, min_size=1, max_size=3), max_size=8),
    st.lists(st.tuples(number, number), max_size=8),
    st.lists(st.lists(number, max_size=3), max_size=3),
    st.lists(st.lists(number, max_size=2), min_size=1, max_size=4),
)


@given(seeds)
def test_each_root_is_told_with_all_that_wait_behind_it(given: Seeds) -> None:
    twin = Twin.of(given)
    expected = twin.behind()

    ranked = rank(twin.waits, MOST, PLENTY)

    assert not ranked.is_partial
    told = {twin.node(each.kind, each.name): each for each in ranked.blockers if each.kind is not BlockerKind.RING}
    assert told.keys() == expected.keys()
    counts = [each.behind for each in ranked.blockers if each.kind is not BlockerKind.RING]
    assert counts == sorted(counts, reverse=True)
    for root, blocker in told.items():
        behind = expected[root]
        gates = {gate for gate in twin.waits.gates if gate is root or root in twin.reached(gate)}
        assert blocker.is_at_least == (len(gates) > 1)
        assert blocker.behind <= len(behind) if blocker.is_at_least else blocker.behind == len(behind)
        check_longest(twin, blocker, root, behind)


def check_longest(twin: Twin, blocker: Blocker, root: object, behind: set[int]) -> None:
    """Jobs with greater ids came later, here and there."""
    assert blocker.longest is not None
    assert (blocker.longest.job_id, blocker.longest.since) == (min(behind), float(min(behind)))
    twin.check_way(blocker.longest, root)


@given(seeds)
def test_whoever_waits_for_locks_is_behind_a_root_or_a_ring(given: Seeds) -> None:
    twin = Twin.of(given)

    ranked = rank(twin.waits, MOST, PLENTY)

    rings = [each for each in ranked.blockers if each.kind is BlockerKind.RING]
    led_to_roots = set().union(*twin.behind().values())
    for ring in rings:
        # a ring in which nobody's wait leads out
        assert all(job_id in twin.reached(job_id) and job_id not in led_to_roots for job_id in ring.job_ids)
    told = {job_id for ring in rings for job_id in ring.job_ids}
    waiters = (each for each in twin.waits.locks if not isinstance(each, str))
    assert all(each in led_to_roots or {each, *twin.reached(each)} & told for each in waiters)


@given(seeds, st.integers(1, 6))
def test_with_few_steps_no_number_is_too_large(given: Seeds, steps: int) -> None:
    twin = Twin.of(given)
    expected = twin.behind()

    ranked = rank(twin.waits, MOST, steps)

    for each in ranked.blockers:
        if each.kind is not BlockerKind.RING:
            count = len(expected[twin.node(each.kind, each.name)])
            assert each.behind <= count
            assert each.is_at_least or each.behind == count
    assert ranked.is_partial or {each.behind for each in ranked.blockers} == {
        each.behind for each in rank(twin.waits, MOST, PLENTY).blockers
    }


@given(seeds)
def test_the_way_of_a_wait_leads_to_a_root(given: Seeds) -> None:
    twin = Twin.of(given)

    for job_id in twin.jobs():
        wait = way_from(twin.waits, JobId(job_id))

        if wait.way:
            end = twin.node(wait.way[-1].kind, wait.way[-1].name)
            assert not twin.ahead(end) or end in twin.reached(end)
            twin.check_way(wait, end)
        else:
            assert not twin.ahead(job_id)
