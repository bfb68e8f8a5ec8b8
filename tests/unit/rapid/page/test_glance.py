"""The first screen: names that are alike, what is new to a visitor, ways, and what the timeline draws."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.ids import JobId
from common.queue.jobs import JobState
from common.words.fields import JobRow
from daemons.rapid.page.views.glance import (
    Failures,
    Known,
    blocker_lines,
    failures_since,
    failures_view,
    group_names,
    jobs_named,
    running_groups,
    wait_lines,
    worth_drawing,
)
from protocol.luxi.history import EndedJob
from protocol.luxi.why import Blocker, BlockerKind, LongWait, WayStep

NOW = 1_000_000.0
JOB = BlockerKind.JOB


def row(job_id: int, name: str = "", status: str = "running", start: float = NOW - 60, **values: Any) -> JobRow:
    told: JobRow = {"id": job_id, "status": status, "name": name, "summary": ["TEST_DELAY(1.0)"], "user": "jane"}
    told |= {"start_ts": [int(start), 0], "begin_ts": None, "hold": None, "uses": {}}
    return cast(JobRow, {**told, **values})


def ended(job_id: int, at: float, name: str = "check", why: str = "failed, TEST: broken") -> EndedJob:
    return EndedJob(
        JobId(job_id), JobState.ERROR, name, "TEST", "jane", {}, at - 9, at - 9, at - 5, at, 4.0, 5.0, why=why
    )  # fmt: skip


def known(*rows: JobRow, rules: dict[str, str] | None = None) -> Known:
    return Known({each["id"]: each for each in rows}, {}, rules or {})


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["scan-host-1", "scan-host-02", "dump"], ["scan-host-*", "scan-host-*", "dump"]),
        # a number in the only one of its name is not hidden
        (["scan-host-1", "dump-2"], ["scan-host-1", "dump-2"]),
        (["scan-web", "scan-db", "scan-mail", "scan"], ["scan-*", "scan-*", "scan-*", "scan"]),
        # two are not enough to tell that the last word is what differs
        (["scan-web", "scan-db"], ["scan-web", "scan-db"]),
        (["dump", "dump"], ["dump", "dump"]),
        (["RUN(ls a)", "RUN(ls b)", "RUN(ls c)"], ["RUN(ls *)"] * 3),
        ([], []),
    ],
)
def test_names_are_alike_but_for_numbers_or_for_the_last_word_of_several(names: list[str], groups: list[str]) -> None:
    assert group_names(names) == groups


@given(st.lists(st.text("ab1-. *(", max_size=6), max_size=8))
def test_a_name_fits_its_group_and_its_group_does_not_depend_on_the_order(names: list[str]) -> None:
    groups = group_names(names)

    assert len(groups) == len(names)
    for name, group in zip(names, groups, strict=True):
        assert group == name or (groups.count(group) > 1 and "*" in group)
        parts = group.split("*")
        assert name == group or (name.startswith(parts[0]) and name.endswith(parts[-1]))
    assert dict(zip(reversed(names), group_names(names[::-1]), strict=True)) == dict(zip(names, groups, strict=True))


def test_jobs_of_equal_names_run_as_one_line_with_the_longest_of_them() -> None:
    rows = [row(each, f"scan-{each}", start=NOW - each) for each in range(10, 35)]

    groups = running_groups([row(1, "dump", start=NOW - 7200), *rows, row(2)], NOW)

    assert [(each.title, each.count, each.first.text, each.longest) for each in groups] == [
        ("scan-*", 25, "job 34", "34s"),
        ("dump", 1, "job 1", "2h00m"),
        ("TEST_DELAY(1.0)", 1, "job 2", "1m00s"),
    ]
    assert groups[0].href == "/ui/jobs?where=%28status%3Drunning%29+%26+name%3D%2A%22scan-%2A%22"
    assert [each.href for each in groups[1:]] == ["/ui/jobs/1", "/ui/jobs/2"]


def test_a_name_that_a_pattern_would_read_otherwise_leads_to_all_that_run() -> None:
    (group,) = running_groups([row(1, "x[1]"), row(2, "x[2]")], NOW)

    assert (group.title, group.href) == ("x[*]", "/ui/jobs?where=status%3Drunning")


def test_what_is_new_is_shown_however_old_but_not_for_ever() -> None:
    assert failures_since(NOW, None) == NOW - 3600
    assert failures_since(NOW, NOW - 60) == NOW - 3600
    assert failures_since(NOW, NOW - 7200) == NOW - 7200
    assert failures_since(NOW, 0.0) == NOW - 7 * 86400


def test_failures_that_are_alike_are_one_line_and_those_beyond_twenty_lines_a_number() -> None:
    alike = [ended(900 - each, NOW - each, f"check-{each}", f"failed, TEST: code {each}") for each in range(30)]
    others = [ended(500 - each, NOW - 100 - each, f"{chr(97 + each)}", f"{chr(97 + each)} broke") for each in range(24)]
    found = Failures(NOW - 3600, None, (*alike, *others), total=80, consequences=3)

    view = failures_view(found, NOW, lambda _: None)

    assert view.told == "83 in the last hour"
    assert len(view.lines) == 20
    first = view.lines[0]
    assert (first.job_id, first.what, first.count, first.ago) == (900, "check-*", 30, "0.0s")
    # the summary is not told twice
    assert [part.text for part in first.why] == ["code 0"]
    assert view.more == 80 - 30 - 19
    assert view.more_href.startswith("/ui/history?since=%40996400&where=status%3Derror")
    assert (view.consequences, view.new, view.mark) == (3, None, repr(NOW))


def test_what_ended_after_the_mark_is_new_and_the_mark_can_be_moved_on() -> None:
    jobs = (ended(3, NOW - 10, "a"), ended(2, NOW - 20.5, "b"), ended(1, NOW - 30, "c"))

    view = failures_view(Failures(NOW - 9000, NOW - 20.5, jobs, total=3), NOW, lambda _: None)

    assert [line.is_new for line in view.lines] == [True, False, False]
    assert (view.new, view.mark) == (1, repr(NOW - 10))
    assert view.told.startswith("3 since ")
    assert failures_view(Failures(0.0, NOW - 10, jobs, total=3), NOW, lambda _: None).mark == ""
    assert failures_view(Failures(0.0, None), NOW, lambda _: None).mark == ""


def test_a_blocker_is_told_with_its_jobs_its_number_and_the_way_to_it() -> None:
    steps = (WayStep(BlockerKind.BUCKET, "3:disk"), WayStep(JOB, "2", "node/a"))
    wait = LongWait(JobId(9), NOW - 90, steps)
    limit = Blocker(BlockerKind.RULE, "uuid-1", (JobId(4), JobId(5)), 7, 7, 3, 3, False, None)
    root = Blocker(JOB, "2", (), 0, None, 1, 1200, True, wait)
    rows = known(row(2, "dump", start=NOW - 7200), row(9, "late", "queued"), rules={"uuid-1": "only seven"})

    first, second = blocker_lines([root, limit], rows, NOW)

    assert (first.part.text, first.part.href, first.what, first.status) == ("job 2", "/ui/jobs/2", "dump", "running")
    assert (first.told, first.count, first.direct, first.longest) == ("for 2h00m", "at least 1,200", "1", "1m30s")
    assert first.way is not None
    assert (first.way.start.text, first.way.start.whole) == ("job 9", "late")
    told = [(each.part.text, each.lock.text if each.lock else None) for each in first.way.parts]
    assert told == [("limit 3:disk", None), ("job 2", "node/a")]
    assert (second.part.text, second.told, second.count, second.way) == ("only seven", "7 of 7 taken", "3", None)
    assert ([each.text for each in second.holders], second.more) == (["job 4", "job 5"], 5)
    assert jobs_named([root, limit], ()) == [2, 4, 5, 9]


def test_a_root_on_hold_says_so() -> None:
    held = row(2, "dump", "queued", hold={"by": "ann", "at": 0, "why": "no tapes"}, start_ts=None)

    (line,) = blocker_lines([Blocker(JOB, "2", (), 0, None, 1, 1, False, None)], known(held), NOW)

    assert line.told == "on hold by ann: no tapes"


@pytest.mark.parametrize("kind", BlockerKind)
def test_whatever_holds_jobs_back_leads_somewhere(kind: BlockerKind) -> None:
    (line,) = blocker_lines([Blocker(kind, "7", (), 0, None, 1, 1, False, None)], known(row(7)), NOW)

    assert line.part.text
    assert (line.part.href or "").startswith("/ui/")


def test_waits_for_the_same_are_one_line_and_a_long_way_has_a_gap() -> None:
    way = tuple(WayStep(JOB, str(each)) for each in (1, 2, 3, 7, 8, 9))
    waits = [
        LongWait(JobId(20), NOW - 50, way, 11),
        LongWait(JobId(21), NOW - 40, (WayStep(BlockerKind.SLOTS, ""),)),
        LongWait(JobId(22), NOW - 30, (WayStep(BlockerKind.SLOTS, ""),)),
        LongWait(JobId(23), NOW - 20),
        LongWait(JobId(99), None),
    ]
    rows = known(row(20, "tail", "waiting"), *(row(each, f"web{each}", "queued") for each in (21, 22, 23)))

    lines = wait_lines(waits, rows, NOW, 8)

    assert [(each.job_id, each.what, each.count, each.time) for each in lines] == [
        (20, "tail", 1, "50s"),
        (21, "web*", 2, "40s"),
        (23, "web23", 1, "20s"),
    ]
    assert lines[0].way is not None
    assert (lines[0].way.gap, lines[0].way.left_out) == (3, 11)
    assert (lines[2].way, [part.text for part in lines[2].why]) == (None, ["waits for its turn"])
    assert len(wait_lines(waits, rows, NOW, 2)) == 2


def test_the_timeline_draws_of_each_kind_in_turn_and_no_job_twice() -> None:
    blockers = [Blocker(JOB, "5", (), 0, None, 1, 1, False, None)]
    failures = [ended(each, NOW) for each in (9, 8, 7)]
    running = [row(each, start=NOW - each) for each in (5, 30, 31)]
    waits = [LongWait(JobId(each), None) for each in (40, 41)]

    assert worth_drawing(blockers, failures, running, waits, 6) == [5, 8, 9, 30, 31, 40]
    assert worth_drawing(blockers, failures, running, waits, 99) == [5, 7, 8, 9, 30, 31, 40, 41]
    assert worth_drawing([], [], [], [], 6) == []
