"""The rows of the lock monitor (luxid.md 7.4)."""

from typing import Any

import orjson

from common.ids import JobId
from common.queue.jobs import Dependency, JobState
from common.wire import structure
from daemons.luxid.core.query.locks import LOCKS, lock_rows
from protocol.luxi.queries import LOCK_FIELDS, LockRow
from protocol.messages import structure_reply
from protocol.wconfd.locks import ListLocksWaitingStatus

NODE = "node/acfaa8e2-6745-4e5c-ac80-7a605f2e4409"


def owner(ident: int | str) -> list[Any]:
    return [ident, f"/run/livelocks/{ident}"]


def rows_of(wire: Any, waiting: Any = None) -> list[Any]:
    status = structure_reply(ListLocksWaitingStatus, wire)
    return LOCKS.plan(LOCK_FIELDS, None).classic_rows(lock_rows(status, waiting or {}))


def test_rows_are_those_of_a_recorded_answer() -> None:
    """Exchange Query/lock/held-and-pending of a real Ganeti."""
    jobs = (33, 34, 35, 36)
    held = [
        ["cluster/BGL", [[owner(job), "shared"] for job in jobs]],
        ["cluster/[lockset]", []],
        [NODE, [[owner(33), "exclusive"]]],
        ["node/[lockset]", []],
    ]
    pending = [[0, owner(job), [[NODE, "exclusive"]]] for job in (35, 34, 36)]

    assert rows_of([held, pending]) == [
        ["cluster/BGL", "shared", ("33", "34", "35", "36"), []],
        ["cluster/[lockset]", None, (), []],
        ["node/[lockset]", None, (), []],
        [NODE, "exclusive", ("33",), [["exclusive", ["35"]], ["exclusive", ["34"]], ["exclusive", ["36"]]]],
    ]


def test_groups_are_shown_with_their_members_and_a_lock_that_is_only_wanted_too() -> None:
    pending = [[0, owner(1), [["instance/a", "shared"], ["node/b", "release"]]]]

    assert rows_of([[], pending]) == [
        ["instance/[lockset]", None, (), []],
        ["instance/a", None, (), [["shared", ["1"]]]],
    ]


def test_who_waits_for_a_lock_stands_at_no_other_that_he_would_get() -> None:
    bgl = "cluster/BGL"
    held = [[bgl, [[owner(1), "shared"]]], [NODE, [[owner(1), "exclusive"]]]]
    pending = [[0, owner(2), [[bgl, "shared"], [NODE, "shared"]]]]
    one_of_all = [[0, owner(3), [[bgl, "exclusive"]]]]

    def waiting(rows: Any) -> dict[str, Any]:
        return {row[0]: row[3] for row in rows if row[3]}

    assert waiting(rows_of([held, pending])) == {NODE: [["shared", ["2"]]]}
    # behind who wants it alone everybody waits there, too
    assert waiting(rows_of([held, [*one_of_all, *pending]])) == {
        bgl: [["exclusive", ["3"]], ["shared", ["2"]]],
        NODE: [["shared", ["2"]]],
    }
    # a group is taken by who has one of it, and a member by who has the group
    assert waiting(rows_of([held, [[0, owner(2), [["node/[lockset]", "shared"]]]]])) == {
        "node/[lockset]": [["shared", ["2"]]]
    }
    of_group = [["node/[lockset]", [[owner(1), "exclusive"]]]]
    assert waiting(rows_of([of_group, pending])) == {NODE: [["shared", ["2"]]]}
    # nobody is in the way any more: the reply is under way
    assert waiting(rows_of([[], pending])) == {bgl: [["shared", ["2"]]], NODE: [["shared", ["2"]]]}


def test_who_is_no_job_is_shown_in_quotes_and_the_configuration_has_no_group() -> None:
    held = [["cluster/config", [[owner('luxid-"7"'), "shared"], [owner(3), "exclusive"]]]]

    assert rows_of([held, []]) == [["cluster/config", "exclusive", ('"luxid-\\"7\\""', "3"), []]]


def test_jobs_that_others_wait_for_come_last_by_number() -> None:
    """DESIGN section 11."""
    either, success = Dependency(0), Dependency(0, (JobState.SUCCESS,))
    waiting = {
        JobId(10): [(JobId(11), success), (JobId(12), either), (JobId(13), success)],
        JobId(9): [(JobId(11), Dependency(0, (JobState.CANCELED, JobState.SUCCESS)))],
    }

    assert rows_of([[["node/[lockset]", [[owner(1), "shared"]]]], []], waiting) == [
        ["node/[lockset]", "shared", ("1",), []],
        ["job/9", None, (), [["success,canceled", ["job/11"]]]],
        ["job/10", None, (), [["success", ["job/11", "job/13"]], ["success,error", ["job/12"]]]],
    ]


def test_a_client_reads_the_rows_as_luxid_made_them() -> None:
    held = [[NODE, [[owner(33), "exclusive"]]]]
    pending = [[0, owner("gnt-x"), [[NODE, "shared"]]]]
    waiting = {JobId(7): [(JobId(8), Dependency(JobId(7), (JobState.SUCCESS,)))]}
    made = lock_rows(structure_reply(ListLocksWaitingStatus, [held, pending]), waiting)

    sent = orjson.loads(orjson.dumps(rows_of([held, pending], waiting)))

    assert [structure(row, LockRow) for row in sent] == made
    assert [row.name for row in made] == ["node/[lockset]", NODE, "job/7"]
