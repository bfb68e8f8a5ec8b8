"""What a luxid has to commit at its start, in parts that etcd takes (DESIGN section 14)."""

from common.ids import JobId
from common.lease.changes import Fate, KeyChange, WrittenFile, check_change, encode_fate
from daemons.luxid.core.copies.backlog import Key, QueueFact
from daemons.luxid.core.copies.etcdentries import MOST_FILES, Passing
from daemons.luxid.replicating.etcdcopies import MOST_BYTES
from daemons.luxid.replicating.replaying import ReplayedChanges, Uncommitted


def laid(fates: dict[Key, Fate], *over: int) -> Uncommitted:
    return Uncommitted(ReplayedChanges(fates, frozenset(JobId(each) for each in over), frozenset(), JobId(0)))


def drained(left: Uncommitted) -> list[tuple[set[Key], set[JobId]]]:
    """All parts, each committed."""
    parts = []
    while (part := left.part()) is not None:
        fates, passing = part
        parts.append((set(fates), set(passing.over)))
        left.committed(fates, passing)
    return parts


def test_each_file_and_each_job_is_in_one_part_and_a_part_is_small() -> None:
    count = 2 * MOST_FILES + 1
    fates: dict[Key, Fate] = {JobId(number): WrittenFile(b"") for number in range(count)}
    over = range(count + MOST_FILES + 1)

    parts = drained(laid(fates, *over))

    assert sum(len(keys) for keys, _ in parts) == count
    assert sorted(job for _, jobs in parts for job in jobs) == list(over)
    assert all(len(keys) <= MOST_FILES and len(jobs) <= MOST_FILES for keys, jobs in parts)
    # a job leaves its process in the transaction that says what became of it
    assert all(jobs == keys for keys, jobs in parts if keys)


def test_a_job_whose_file_comes_later_stays_in_the_hands_of_its_process_until_then() -> None:
    fates: dict[Key, Fate] = {JobId(number): WrittenFile(b"") for number in range(MOST_FILES + 1)}

    # those of the first part have their processes still
    parts = drained(laid(fates, MOST_FILES, MOST_FILES + 1))

    assert [jobs for keys, jobs in parts if MOST_FILES in keys] == [{MOST_FILES}]
    assert sorted(job for _, jobs in parts for job in jobs) == [MOST_FILES, MOST_FILES + 1]


def test_large_files_do_not_share_a_part_that_etcd_refuses() -> None:
    content = b"x" * MOST_BYTES
    fates: dict[Key, Fate] = {JobId(number): WrittenFile(content) for number in range(20)}
    left = laid(fates, *range(20))

    while (part := left.part()) is not None:
        found, passing = part
        check_change([KeyChange(str(key), encode_fate(fate)) for key, fate in found.items()])
        left.committed(found, passing)


def test_a_part_that_was_refused_is_the_next_one_again() -> None:
    left = laid({QueueFact.SERIAL: WrittenFile(b"7\n")}, 5)

    assert left.part() == left.part() == ({QueueFact.SERIAL: WrittenFile(b"7\n")}, Passing(over=frozenset({JobId(5)})))


def test_what_etcd_does_not_take_is_left_out_with_its_job() -> None:
    left = laid({JobId(1): WrittenFile(b"x" * (MOST_BYTES + 1)), JobId(2): WrittenFile(b"")}, 1, 2)

    assert left.take_too_large() == {1}
    assert drained(left) == [({2}, {2})]
