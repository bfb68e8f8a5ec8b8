"""What a candidate is sent: the backlog's entries, and who the candidates are."""

from common.ids import JobId
from daemons.luxid.core.copies.backlog import Backlog, JobDigest, Key, QueueFact, StateName, differing

ONE, TWO = JobId(1), JobId(2)


def _settled() -> Backlog:
    """That of a node that has jobs up to 1 and lacks nothing."""
    backlog = Backlog(is_new=False)
    backlog.seen([ONE])
    backlog.compared()
    return backlog


def test_the_last_change_of_a_job_wins() -> None:
    backlog = _settled()
    backlog.changed(ONE, 1)
    backlog.changed(ONE, 2)
    backlog.archived(ONE, 3)

    batch = backlog.take(9)

    assert dict(batch.jobs) == {ONE: True}
    assert len(backlog) == 1


def test_a_change_during_a_batch_stays() -> None:
    backlog = _settled()
    backlog.changed(ONE, 1)
    batch = backlog.take(9)
    backlog.changed(ONE, 2)

    backlog.arrived(batch, ONE)

    assert not backlog.lacks([ONE], 1)
    assert backlog.lacks([ONE], 2)


def test_only_the_move_of_a_job_that_the_node_has_is_sent() -> None:
    backlog = _settled()
    backlog.archived(ONE, 1)

    assert dict(backlog.take(9).jobs) == {ONE: False}


def test_the_serial_travels_before_jobs_and_the_oldest_jobs_first() -> None:
    backlog = _settled()
    keys: tuple[Key, ...] = (TWO, ONE, QueueFact.DRAIN, QueueFact.SERIAL)
    for number, key in enumerate(keys, 1):
        backlog.changed(key, number)

    batch = backlog.take(1)

    assert batch.facts == (QueueFact.SERIAL, QueueFact.DRAIN)
    assert dict(batch.jobs) == {TWO: True}


def _of_ganeti() -> Backlog:
    backlog = _settled()
    backlog.is_of_ganeti()
    return backlog


def test_an_old_job_that_is_removed_purges_no_node() -> None:
    ours, theirs = _settled(), _of_ganeti()
    for backlog in (ours, theirs):
        backlog.archived(ONE, 1)
        backlog.pruned(ONE, 2)

    assert dict(ours.take(9).jobs) == {ONE: True}
    # it stays in the archive of a node of Ganeti, which could only lose all of its jobs
    assert theirs.is_empty
    assert not theirs.needs_purge


def test_a_removed_job_is_an_entry_and_no_reason_to_purge() -> None:
    backlog = _settled()
    backlog.removed(ONE, 1)

    assert dict(backlog.take(9).jobs) == {ONE: True}
    assert not backlog.needs_purge


def test_the_note_of_a_batch_arrives_before_its_jobs_and_leaves_after_them() -> None:
    backlog = _settled()
    note = StateName("submissions/batch-1-2")
    keys: tuple[Key, ...] = (note, ONE, TWO)
    for number, key in enumerate(keys, 1):
        backlog.changed(key, number)
    first = backlog.take(2)
    backlog.discarded(note, 4)

    assert (first.states, dict(first.jobs)) == ((note,), {ONE: True})
    assert (backlog.take(2).states, backlog.take(3).states) == ((), (note,))


def test_ganetis_node_gets_no_files_of_ours_and_everything_when_it_is_replaced() -> None:
    backlog, key = _of_ganeti(), StateName("submissions/key")
    backlog.changed(key, 1)
    is_empty = backlog.is_empty

    backlog.is_of_ours()

    assert is_empty
    assert backlog.needs_comparison


def test_a_new_node_of_ganeti_is_purged() -> None:
    new, known = Backlog(is_new=True), Backlog(is_new=False)

    new.is_of_ganeti()
    known.is_of_ganeti()

    assert (new.needs_purge, known.needs_purge) == (True, False)


def test_a_node_that_never_had_a_removed_job_is_not_purged() -> None:
    backlog = _of_ganeti()
    backlog.changed(TWO, 1)
    backlog.removed(TWO, 2)

    assert backlog.is_empty


def test_a_node_that_may_have_a_removed_job_is_purged() -> None:
    backlog = _of_ganeti()
    backlog.removed(ONE, 1)
    assert backlog.needs_purge

    backlog.purged()

    assert not backlog.needs_purge
    assert backlog.needs_comparison


def test_a_job_in_two_places_or_with_another_content_differs() -> None:
    live, archived = JobDigest("new", False), JobDigest("new", True)

    assert differing({ONE: live, TWO: archived}, {ONE: "new"}, {TWO: "new"}) == {}
    assert differing({ONE: live}, {ONE: "old"}, {}) == {ONE: True}
    assert differing({ONE: live}, {}, {}) == {ONE: True}
    assert differing({TWO: archived}, {TWO: "new"}, {}) == {TWO: False}
    assert differing({TWO: archived}, {TWO: "old"}, {TWO: "new"}) == {TWO: True}
    assert differing({TWO: archived}, {}, {}) == {TWO: True}


def test_a_lost_reply_makes_a_comparison_necessary() -> None:
    backlog = _settled()

    backlog.doubt()

    assert not backlog.is_empty
    assert backlog.needs_comparison
