"""Which jobs run again with others, against a twin that only scans (DESIGN section 16)."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from common.errors import Conflict
from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Dependency
from common.queue.reruns import OldJob, chosen, successors, with_dependents

IDS = st.integers(1, 12)
# rings and dependencies on later jobs, too
ANY = st.dictionaries(IDS, st.lists(IDS, max_size=4), max_size=12)
# as the queue makes them, in an order of its own: a change lets a job depend on a later one
ORDERS = st.permutations(range(1, 10))


def scanned(job_ids: Sequence[int], depends: Mapping[int, Sequence[int]]) -> set[int]:
    found = set(job_ids)
    while more := {job for job, targets in depends.items() if found & set(targets)} - found:
        found |= more
    return found


@given(st.lists(IDS, min_size=1, max_size=3), ANY)
def test_the_dependents_are_those_that_a_scan_finds(job_ids: list[int], depends: dict[int, list[int]]) -> None:
    assert with_dependents(job_ids, depends) == sorted(scanned(job_ids, depends))


@given(ORDERS, st.data())
def test_each_copy_depends_on_the_copies_of_what_its_job_depended_on(order: list[int], data: st.DataObject) -> None:
    depends = {
        job_id: data.draw(st.lists(st.sampled_from(order[:place]), unique=True, max_size=3)) if place else []
        for place, job_id in enumerate(order)
    }
    root = data.draw(st.sampled_from(order))
    ids = with_dependents([root], depends)

    made = successors(chosen([old(job_id, depends[job_id]) for job_id in ids], failed_only=False), {}, {}, 1)

    assert sorted(each.of for each in made) == ids
    for place, each in enumerate(made):
        wire = each.ops[0].get("depends") or []
        assert isinstance(wire, list)
        offsets = [Dependency.from_wire(one).job_id for one in wire]
        assert all(-place <= offset < 0 for offset in offsets)
        assert {made[place + offset].of for offset in offsets} == set(depends[each.of]) & set(ids)


@given(st.lists(IDS, min_size=1, unique=True), ANY)
def test_an_order_is_found_or_there_is_a_ring(job_ids: list[int], depends: dict[int, list[int]]) -> None:
    own = {job_id: set(depends.get(job_id, ())) & set(job_ids) - {job_id} for job_id in job_ids}
    jobs = [old(job_id, sorted(own[job_id])) for job_id in job_ids]

    try:
        order = [job.job_id for job in chosen(jobs, failed_only=False)]
    except Conflict:
        assert has_ring(own)
    else:
        assert not has_ring(own)
        assert all(order.index(target) < order.index(job_id) for job_id in job_ids for target in own[job_id])


def has_ring(own: Mapping[int, set[int]]) -> bool:
    left = dict(own)
    while free := [job_id for job_id, on in left.items() if not on & left.keys()]:
        left = {job_id: on for job_id, on in left.items() if job_id not in free}
    return bool(left)


def old(job_id: int, on: Sequence[int]) -> OldJob:
    depends = [[target, ["success"]] for target in on]
    op = write_opcode(parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "depends": depends}))
    return OldJob(job_id, "error", [op], [True])
