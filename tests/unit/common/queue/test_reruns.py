"""Jobs that run again: what is kept, what is new, what becomes of dependencies (everyday.md j)."""

import re
from typing import Any

import pytest

from common.errors import Conflict, Denied, InvalidRequest
from common.opcodes.base import write_opcode
from common.opcodes.registry import parse_opcode
from common.query.predicate import Field, compile_expression
from common.query.qlang import Expression, NumericRange, bounds_of
from common.queue.reasons import Batch, Try, batch_entry, batch_of_trail, submitter_entry, try_entry
from common.queue.reruns import (
    MOST_DEPENDENTS,
    REACH,
    OldJob,
    Successor,
    batches_of,
    chosen,
    dependents_filters,
    outside,
    successors,
    with_dependents,
)
from common.queue.terms import Hold, JobTerms, Use, terms_entry, terms_of_trail

AT_NS = 5


def op(**fields: Any) -> dict[str, Any]:
    """An opcode as its job's file has it."""
    return write_opcode(parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **fields}))


def old(job_id: int, *ops: dict[str, Any], status: str = "error", executed: bool = True) -> OldJob:
    return OldJob(job_id, status, ops or (op(),), [executed] * max(len(ops), 1))


def rerun(*jobs: OldJob, states: dict[int, str] | None = None) -> list[Successor]:
    batches = {batch_id: f"new-{batch_id}" for batch_id in batches_of(jobs)}
    return successors(jobs, states or {}, batches, AT_NS)


def after(*targets: tuple[int, list[str]]) -> dict[str, Any]:
    return op(depends=[list(target) for target in targets])


def test_the_new_job_has_the_old_one_s_opcodes_and_terms_but_not_its_reasons_and_tries() -> None:
    terms = JobTerms("nightly", {"team": "web", "rerun-of": "3"}, 9e8, Hold("ada", 1.0), (Use("", "licences", 2),))
    trail = [
        terms_entry(terms, 1),
        submitter_entry("ada", 1),
        try_entry(Try(1, 1.0, 2.0, "ended with exit code 75", 75, 3.0, 7)),
        *(parse_opcode(op(reason=[["gnt:user", text, 1]])).reason[0] for text in ("monthly", "rate-limit:2:backup")),
    ]
    before = op(argv=["backup", "a b"], retries=3, reason=[entry.to_wire() for entry in trail])

    (made,) = rerun(old(17, before, op(comment="second")))

    first, second = (dict[str, Any](each) for each in made.ops)
    assert {key: first[key] for key in ("argv", "retries", "exit_codes")} == {
        "argv": ["backup", "a b"],
        "retries": 3,
        "exit_codes": [0],
    }
    assert second["comment"] == "second"
    assert terms_of_trail(first["reason"]) == JobTerms(
        "nightly", {"team": "web", "rerun-of": "17"}, uses=(Use("", "licences", 2),)
    )
    assert [entry[:2] for entry in first["reason"] if entry[0] != "gantry:terms"] == [
        ["gnt:user", "rate-limit:2:backup"]
    ]
    assert second["reason"] == []


def test_of_a_chain_the_failed_part_runs_again_with_its_dependencies() -> None:
    jobs = [
        old(4, after((3, ["success"]), (2, ["success"])), executed=False),
        old(2, status="success"),
        old(3, after((2, []))),
        old(5, after((4, ["error"])), status="canceled", executed=False),
    ]

    part = chosen(jobs, failed_only=True)
    assert [job.job_id for job in part] == [3, 4, 5]
    assert outside(part) == [2]

    made = rerun(*part, states={2: "success"})

    assert [each.of for each in made] == [3, 4, 5]
    assert [each.ops[0].get("depends") for each in made] == [None, [[-1, ["success"]]], [[-1, ["error"]]]]


@pytest.mark.parametrize(
    ("state", "wanted", "kept"),
    [
        ("success", ["success"], None),
        ("error", [], None),
        ("running", ["success"], [[2, ["success"]]]),
        ("queued", [], [[2, []]]),
    ],
)
def test_a_dependency_on_another_job_is_left_out_if_it_is_met_and_kept_if_it_can_be(
    state: str, wanted: list[str], kept: Any
) -> None:
    (made,) = rerun(old(3, after((2, wanted)), executed=False), states={2: state})

    assert made.ops[0].get("depends") == kept


def test_a_dependency_under_its_other_name_is_not_kept_on_the_old_job() -> None:
    first, second = old(2), old(3, {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "depend": [[2, ["success"]]]})

    made = rerun(first, second)[1].ops[0]

    assert "depend" not in made
    assert made["depends"] == [[-1, ["success"]]]


@pytest.mark.parametrize(
    ("states", "wanted", "text"),
    [
        ({2: "error"}, ["success"], "job 3 depends on job 2, which ended as error; run both again"),
        ({2: "canceled"}, [], "which ended as canceled"),
        ({}, [], "which no longer exists"),
    ],
)
def test_a_dependency_that_never_will_be_met_is_refused(states: dict[int, str], wanted: list[str], text: str) -> None:
    with pytest.raises(Conflict, match=re.escape(text)):
        rerun(old(3, after((2, wanted)), executed=False), states=states)


def test_a_dependency_of_an_opcode_that_has_begun_was_met() -> None:
    (made,) = rerun(old(3, after((2, ["success"]))), states={})

    assert "depends" not in made.ops[0]


def test_a_job_that_has_not_ended_runs_again_only_after_that() -> None:
    with pytest.raises(Conflict, match="job 3 is running, and only jobs that have ended run again"):
        chosen([old(3, status="running")], failed_only=False)

    assert chosen([old(3, status="running"), old(4, status="success")], failed_only=True) == []


def test_secrets_are_in_no_file_so_a_job_with_some_is_refused() -> None:
    create = {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "web1", "osparams_secret": {"password": "<redacted>"}}

    with pytest.raises(InvalidRequest, match=re.escape("job 3 had secret parameters (password), which no file keeps")):
        rerun(old(3, {**write_opcode(parse_opcode(create))}))


@pytest.mark.parametrize("more", [{"OP_ID": "OP_RUN_COMMAND", "argv": ["rm"]}, {"OP_ID": "OP_TEST_DELAY"}])
def test_what_is_told_of_another_user_s_job_is_not_run(more: dict[str, Any]) -> None:
    """Also if a parameter that an opcode needs is not told."""
    seen = {"depends": None, "comment": None, "reason": [], "priority": 0, **more}

    with pytest.raises(Denied, match="job 3 is another user's"):
        rerun(old(3, seen))


def test_a_job_of_an_earlier_release_runs_again_with_the_default_of_a_parameter_that_is_new_since() -> None:
    before = {key: value for key, value in op(argv=["backup"]).items() if key not in ("keep_locks", "detach")}

    (made,) = rerun(old(3, before))

    assert parse_opcode(dict(made.ops[0])) == parse_opcode({**op(argv=["backup"]), "reason": made.ops[0]["reason"]})


def test_an_opcode_that_is_no_more_is_named() -> None:
    with pytest.raises(InvalidRequest, match="job 3 cannot run again: unknown opcode 'OP_GONE'"):
        rerun(old(3, {"OP_ID": "OP_GONE", "reason": []}))


def test_jobs_of_a_batch_are_a_batch_again_with_its_limits() -> None:
    def member(job_id: int, place: int) -> OldJob:
        entry = batch_entry(Batch("abc", place, 20, at_most=2, failures=0), 1)
        return old(job_id, op(reason=[entry.to_wire()]))

    made = rerun(member(3, 7), old(4), member(5, 9))

    batches = [batch_of_trail(each.ops[0]["reason"]) for each in made]
    assert batches == [
        Batch("new-abc", 1, 2, at_most=2, failures=0),
        None,
        Batch("new-abc", 2, 2, at_most=2, failures=0),
    ]


def test_one_job_of_a_batch_is_none() -> None:
    entry = batch_entry(Batch("abc", 7, 20), 1)

    (made,) = rerun(old(3, op(reason=[entry.to_wire()])))

    assert batch_of_trail(made.ops[0]["reason"]) is None


def test_what_is_made_can_be_submitted() -> None:
    (made,) = rerun(old(3, op(env={"A": "b"}, locks={"node/web1": "exclusive"}, retries=2, fail_on=["exit=2"])))

    assert parse_opcode(made.ops[0])


def test_jobs_run_again_with_those_that_depend_on_them_also_through_others() -> None:
    depends = {2: [1], 3: [2, 9], 4: [8], 7: [3], 5: [6], 6: [5, 1]}

    assert with_dependents([1], depends) == [1, 2, 3, 5, 6, 7]
    assert with_dependents([4, 3], depends) == [3, 4, 7]
    assert with_dependents([10], depends) == [10]


def test_archived_jobs_are_looked_at_between_the_chosen_ones_and_ten_thousand_ids_further() -> None:
    (_, live), (fields, archived) = dependents_filters([50, 70])

    def passes(condition: object, job_id: int) -> bool:
        def field(name: str) -> Field[int]:
            return Field(lambda job_id: job_id if name == "id" else 1)

        return compile_expression(Expression.from_wire(condition), field)(job_id)

    found = [job_id for job_id in (1, 50, 51, 60, 71, 70 + REACH, 71 + REACH) if passes(archived, job_id)]
    assert found == [51, 60, 71, 70 + REACH]
    assert "archived" in fields
    # no file outside is read
    assert bounds_of(Expression.from_wire(archived), "id") == NumericRange(51, 70 + REACH)
    assert passes(live, 1)
    assert passes(live, 71 + REACH)


def test_no_more_dependents_run_again_than_the_bound() -> None:
    depends = {job_id: [1] for job_id in range(2, MOST_DEPENDENTS + 2)}

    assert len(with_dependents([1], depends)) == MOST_DEPENDENTS + 1
    with pytest.raises(Conflict, match="more than 1,000 jobs depend on the chosen ones"):
        with_dependents([1], {**depends, MOST_DEPENDENTS + 2: [5]})


def test_a_job_runs_again_behind_a_later_one_that_it_came_to_depend_on() -> None:
    jobs = chosen([old(3, after((5, ["success"]))), old(5), old(4)], failed_only=False)

    made = rerun(*jobs)

    assert [each.of for each in made] == [4, 5, 3]
    assert made[2].ops[0]["depends"] == [[-1, ["success"]]]


def test_jobs_in_a_ring_are_refused() -> None:
    with pytest.raises(Conflict, match="jobs wait for each other in a ring, 3, 5 among them"):
        chosen([old(3, after((5, []))), old(5, after((3, []))), old(6)], failed_only=False)


def three_opcodes(*states: str, status: str = "error") -> OldJob:
    entry = terms_entry(JobTerms("deploy", {"team": "web"}), 1).to_wire()
    ops = [
        op(argv=["build"], reason=[entry]),
        op(argv=["test"], depends=[[2, ["success"]]]),
        op(argv=["install"], reason=[["gnt:user", "rate-limit:2:install", 1]]),
    ]
    return OldJob(7, status, ops, [state != "error" or index == 1 for index, state in enumerate(states)], states)


def test_a_job_begins_again_with_the_opcode_that_failed() -> None:
    job = three_opcodes("success", "error", "error")

    (made,) = successors([job], {2: "success"}, {}, AT_NS, from_failed=True)

    assert (made.of, made.left_out) == (7, 1)
    assert [each["argv"] for each in made.ops] == [["test"], ["install"]]
    assert terms_of_trail(made.ops[0]["reason"]) == JobTerms("deploy", {"team": "web", "rerun-of": "7"})
    assert [entry[1] for entry in dict[str, Any](made.ops[1])["reason"]] == ["rate-limit:2:install"]


@pytest.mark.parametrize("states", [("success", "success", "success"), ("success", "canceled", "canceled")])
def test_without_a_failed_opcode_no_job_begins_with_one(states: tuple[str, ...]) -> None:
    job = three_opcodes(*states, status=states[-1])

    with pytest.raises(Conflict, match=f"no opcode of job 7 failed, it ended as {states[-1]}; run it again from"):
        successors([job], {2: "success"}, {}, AT_NS, from_failed=True)


def test_secrets_of_an_opcode_that_is_left_out_do_not_matter() -> None:
    create = {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "web1", "osparams_secret": {"password": "<redacted>"}}
    job = OldJob(3, "error", [write_opcode(parse_opcode(create)), op()], [True, True], ("success", "error"))

    (made,) = successors([job], {}, {}, AT_NS, from_failed=True)

    assert [each["OP_ID"] for each in made.ops] == ["OP_RUN_COMMAND"]
