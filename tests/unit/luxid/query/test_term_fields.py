"""The fields of a job's terms and tries, and one for each label (DESIGN section 16)."""

import pytest

from common.errors import PrerequisiteError
from common.query.predicate import FilterError
from common.query.qlang import Expression
from common.queue.jobs import Job, JobOp
from common.queue.reasons import ReasonEntry
from common.queue.terms import Hold, JobTerms, Use
from daemons.luxid.core.query.jobs import JOBS, JobView, row_of, select_fields
from daemons.luxid.core.rights import public_job
from tests.support.deferred import deferred_job, failed_try, stated

NAMES = ("name", "labels", "label.team", "label.x", "hold", "uses", "begin_ts", "reason", "reason_text")
WANTED = JobTerms(
    "backup-web1", {"team": "web"}, 9.5, Hold("alice", 5.0, "why"), (Use("", "licences", 2), Use("web1", "memory", 7))
)
ENTRY = ReasonEntry("gnt:user", "the disk is full", 1).to_wire()
JOB = deferred_job(1, [ENTRY, *stated(WANTED), *failed_try(30.0)])
PLAIN = deferred_job(2, [])


def cells(*jobs: Job, condition: object = None, names: tuple[str, ...] = ("id",)) -> list[list[object]]:
    plan = JOBS.plan(names, None if condition is None else Expression.from_wire(condition))
    rows = plan.rows([JobView(job) for job in jobs])
    assert plan.notes() == []
    return [[value for _, value in row] for row in rows]


def test_everybody_sees_the_terms_and_they_are_no_reasons() -> None:
    values = [
        "backup-web1",
        {"team": "web"},
        "web",
        "",
        {"by": "alice", "at": 5.0, "why": "why"},
        {"licences": 2, "web1:memory": 7},
        [9, 500_000],
        ["the disk is full"],
        "the disk is full",
    ]

    assert row_of(JobView(JOB), select_fields(NAMES)) == values
    assert row_of(JobView(public_job(JOB)), select_fields(NAMES)) == values


def test_a_job_without_terms_has_empty_ones() -> None:
    assert row_of(JobView(PLAIN), select_fields(NAMES)) == ["", {}, "", "", None, {}, None, [], ""]


def test_the_summary_is_that_of_the_opcode_whatever_the_name() -> None:
    named = Job(JOB.job_id, (JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 5, "reason": stated(WANTED)}),))

    assert row_of(JobView(named), select_fields(["summary"])) == [["TEST_DELAY(5.0)"]]


def test_tries_are_told_for_each_opcode() -> None:
    [[tries]] = [row_of(JobView(JOB), select_fields(["tries"]))]

    assert tries == [
        [
            {
                "n": 1,
                "start": 49.0,
                "end": 50.0,
                "why": "ended with exit code 75",
                "exit": 75,
                "next": 30.0,
                "output": 0,
                "errors": 0,
            }
        ]
    ]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (["==", "label.team", "web"], [1]),
        (["!=", "label.team", "web"], [2]),
        (["=~", "name", "^backup"], [1]),
        (["!", ["=~", "name", "^backup"]], [2]),
        (["==", "label.none", ""], [1, 2]),
        (["?", "hold"], [1]),
        (["!", ["?", "hold"]], [2]),
        (["=~", "reason_text", "backup"], []),
    ],
)
def test_a_filter_finds_jobs_by_name_and_label(condition: object, found: list[int]) -> None:
    assert [row[0] for row in cells(JOB, PLAIN, condition=condition)] == found


def test_each_label_is_a_field_and_is_defined_when_it_is_asked_for() -> None:
    [label, unknown] = JOBS.definitions(["label.team", "labels.team"])

    assert (label.name, label.title, label.kind) == ("label.team", "team", "text")
    assert unknown.kind == "unknown"
    assert "label.team" not in [each.name for each in JOBS.definitions(None)]
    assert {"name", "labels", "hold", "uses", "tries", "begin_ts"} <= {each.name for each in JOBS.definitions(None)}


@pytest.mark.parametrize("name", ["label.", "labels.team", "LABEL.team", "label.Team", "label.a b"])
def test_what_only_looks_like_a_label_is_an_unknown_field(name: str) -> None:
    with pytest.raises(PrerequisiteError, match="unknown job fields"):
        select_fields([name])
    with pytest.raises(PrerequisiteError, match="unknown job fields"):
        JOBS.plan_classic([name])
    with pytest.raises(FilterError, match="there is no field"):
        cells(JOB, condition=["==", name, "x"])
    # as with Ganeti, a cell of an unknown field has no value
    assert cells(JOB, names=("id", name)) == [[1, None]]


def test_a_field_named_twice_is_told_twice() -> None:
    assert row_of(JobView(JOB), select_fields(["name", "id", "name"])) == ["backup-web1", 1, "backup-web1"]
