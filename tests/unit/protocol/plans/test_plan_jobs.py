"""From a plan to the jobs that luxid takes, and from luxid's errors to their places. Source: DESIGN section 16."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.opcodes.registry import parse_opcode
from common.queue.terms import Hold, JobTerms, Use, terms_of_trail
from protocol.plans.documents import read_document
from protocol.plans.jobs import JobPlan, plan_schema, read_plan

EXAMPLES = Path(__file__).parents[4] / "deploy" / "examples" / "plans"


def plan(text: str, name: str = "p.yaml") -> JobPlan:
    return read_plan(read_document(textwrap.dedent(text).encode(), name))


def ops(text: str) -> list[dict[str, Any]]:
    return [dict(op) for job in plan(text).jobs for op in job.to_input(1)]


def without_trail(op: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in op.items() if key != "reason"}


def test_a_job_is_told_by_words() -> None:
    (op,) = ops("""
        jobs:
          - name: build
            labels: {team: web, port: 8080}
            begin: 2030-01-02 03:04Z
            hold: after the audit
            use: {licences: 2, "web1:memory": 4G}
            run: [make, -j, 4]
            env: {PORT: 8080}
            locks: [node/web1, instance/i1:shared]
            timeout: 1.5h
            memory: 2G
            ulimits: {nofile: 4096, core: [0, -1]}
            exit_code: [0, 3]
            stderr: apart
            retries: 3
            retry_on: exit=75
            priority: high
            reason: week 12
        """)

    assert terms_of_trail(op["reason"]) == JobTerms(
        "build",
        {"team": "web", "port": "8080"},
        1_893_553_440.0,
        Hold(why="after the audit"),
        (Use("", "licences", 2), Use("web1", "memory", 4 * 2**30)),
    )
    assert ["gnt:user", "week 12"] in [entry[:2] for entry in op["reason"]]
    assert without_trail(op) == {
        "OP_ID": "OP_RUN_COMMAND",
        "argv": ["make", "-j", "4"],
        "shell": False,
        "env": {"PORT": "8080"},
        "locks": {"node/web1": "exclusive", "instance/i1": "shared"},
        "timeout": 5400.0,
        "memory": 2 * 2**30,
        "ulimits": {"nofile": [4096], "core": [0, -1]},
        "exit_codes": [0, 3],
        "stderr_apart": True,
        "retries": 3,
        "retry_on": ["exit=75"],
        "priority": -10,
    }


def test_jobs_wait_for_jobs_above_them_by_name() -> None:
    found = ops("""
        jobs:
          - {name: a, run: [x]}
          - {name: b, run: [x]}
          - {name: c, run: [x], after: b}
          - {name: d, run: [x], after: [a, 17]}
          - {name: e, run: [x], after: {a: failure, d: any, 18: [success, canceled]}}
          - {ops: [{OP_ID: OP_TEST_DUMMY, depends: [[5, [error]]]}, {OP_ID: OP_TEST_DUMMY}], after: e}
        """)

    assert [op.get("depends") for op in found] == [
        None,
        None,
        [[-1, ["success"]]],
        [[-3, ["success"]], [17, ["success"]]],
        [[-4, ["error"]], [-1, ["canceled", "error", "success"]], [18, ["canceled", "success"]]],
        [[5, ["error"]], [-1, ["success"]]],
        None,
    ]


def test_defaults_stand_behind_and_mappings_are_joined() -> None:
    first, second = ops("""
        x-mine: {anything: [1, 2]}
        defaults: {labels: {team: web, tier: a}, env: {A: x}, retries: 2, timeout: 5m, use: {kit: 1}}
        jobs:
          - {shell: a && b, labels: {tier: b}, env: {B: y}, retries: 0, use: {kit: 2}}
          - {ops: [{OP_ID: OP_TEST_DUMMY}]}
        """)

    assert without_trail(first) == {
        "OP_ID": "OP_RUN_COMMAND", "argv": ["a && b"], "shell": True, "env": {"A": "x", "B": "y"}, "retries": 0,
        "timeout": 300.0,
    }  # fmt: skip
    terms = terms_of_trail(first["reason"])
    assert (terms.labels, terms.uses) == ({"team": "web", "tier": "b"}, (Use("", "kit", 2),))
    assert without_trail(second) == {"OP_ID": "OP_TEST_DUMMY"}
    assert terms_of_trail(second["reason"]).labels == {"team": "web", "tier": "a"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("jobs: []", "p.yaml:1:7: jobs: expected a list of jobs, got []"),
        ("jobs: [x]", "p.yaml:1:8: jobs[0]: expected a job: a mapping with 'run', 'shell' or 'ops', got \"x\""),
        ("jobs:\n- name: a", "p.yaml:2:3: a job has one of run, shell, ops; this has none"),
        ("jobs:\n- {run: [a], shell: b}", "p.yaml:2:3: a job has one of run, shell, ops; this has run and shell"),
        ("jobs:\n- run: make", "p.yaml:2:8: jobs[0].run: expected a list of words, got \"make\"; a text for the"),
        ("jobs:\n- run: [a]\n  timout: 5", "p.yaml:3:11: no key 'timout' is known here; did you mean 'timeout'?"),
        ("job: 1\njobs: []", "p.yaml:1:6: no key 'job' is known here; did you mean 'jobs'?"),
        ("jobs:\n- run: [a]\n  timeout: 1:30", "p.yaml:3:12: jobs[0].timeout: '1:30' is not a duration"),
        ("jobs:\n- run: [a]\n  detach: yes", 'p.yaml:3:11: jobs[0].detach: expected true or false, got "yes"'),
        ("jobs:\n- run: [a]\n  name: 17", "p.yaml:3:9: jobs[0].name: expected a text, got 17; put it into quotes"),
        ("jobs:\n- run: [a, 1.10]", "p.yaml:2:8: jobs[0].run: expected a text, got 1.1; put it into quotes"),
        ("jobs:\n- run: [a]\n  env: {A: true}", "p.yaml:3:8: jobs[0].env: expected a text, got true; put it"),
        ("jobs:\n- run: [a]\n  labels: {Team: x}", "p.yaml:3:11: jobs[0].labels: label 'Team': a label is named by"),
        ("jobs:\n- run: [a]\n  use: {kit: 0}", "p.yaml:2:3: a job uses at least 1 of 'kit', got 0"),
        ("jobs:\n- run: [a]\n  begin: soon", "p.yaml:3:10: jobs[0].begin: 'soon' is not a time"),
        ("jobs:\n- run: [a]\n  priority: hot", 'p.yaml:3:13: jobs[0].priority: no priority is "hot"; write low,'),
        ("jobs:\n- run: [a]\n  after: b", "p.yaml:3:10: no job above is named 'b'; a job waits for jobs that"),
        ("jobs:\n- {name: a, run: [a], after: a}", "p.yaml:2:30: no job above is named 'a'"),
        ("jobs:\n- {name: a, run: [a]}\n- {name: a, run: [a]}\n- {run: [a], after: [a]}", "p.yaml:4:22: several jobs"),
        ("jobs:\n- run: [a]\n  after: {5: done}", 'p.yaml:3:14: no job ends as "done"; write any, canceled, error'),
        ("jobs:\n- run: [a]\n  after: {5: []}", "p.yaml:3:14: say how the job is to end: any, "),
        ("jobs:\n- run: [a]\n  after: {²: any}", "p.yaml:3:14: no job above is named '²'"),
        ("jobs:\n- run: [a]\n  timeout: true", "p.yaml:3:12: jobs[0].timeout: expected a text, got true"),
        ("jobs:\n- run: [a]\n  timeout: -5", "p.yaml:3:12: jobs[0].timeout: '-5' is not a duration"),
        ("jobs:\n- ops: []", "p.yaml:2:8: jobs[0].ops: expected a list of at least one opcode, got []"),
        ("jobs:\n- ops: [{}]", "p.yaml:2:9: jobs[0].ops[0]: the opcode lacks a string OP_ID"),
        ("jobs:\n- ops: [{OP_ID: OP_TEST_DUMMY}]\n  user: x", "p.yaml:3:9: 'user' is for 'run' and 'shell'"),
        ("defaults: {run: [a]}\njobs: [{run: [a]}]", "p.yaml:1:17: 'run' is each job's own; write it there"),
        ("defaults: {retrys: 1}\njobs: [{run: [a]}]", "p.yaml:1:20: no key 'retrys' is known here; did you mean"),
        ("- name: a\n  run: [x]", "p.yaml:1:3: a job in these words stands in the list of 'jobs' of a plan;"),
        ("shell: make", "p.yaml:1:1: a job in these words stands in the list of 'jobs' of a plan; write 'jobs:' above"),
        ("- 5", "p.yaml:1:3: [0]: expected an opcode: an object with an OP_ID, got 5"),
        ("5", "p.yaml:1:1: expected a list of opcodes, or of jobs, or a plan with 'jobs', got 5"),
    ],
)  # fmt: skip
def test_an_error_is_told_with_its_line_and_column(text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan(text)
    assert refused.value.message.startswith(error)


def test_a_value_that_is_nested_too_deeply_to_be_told_is_refused_all_the_same() -> None:
    with pytest.raises(InvalidRequest, match=r"^f\.json: the JSON is nested deeper than 128 levels"):
        plan(f'{{"jobs":[{"[" * 300}{"]" * 300}]}}', "f.json")


@pytest.mark.parametrize("name", ["depend", "depends"])
def test_what_an_opcode_waits_for_is_kept_beside_after_under_either_name(name: str) -> None:
    (op,) = plan(f"jobs:\n- ops: [{{OP_ID: OP_A, {name}: [[7, [error]]]}}]\n  after: 5").jobs[0].ops

    assert op == {"OP_ID": "OP_A", name: [[7, ["error"]], [5, ["success"]]]}


def test_luxids_words_about_an_opcode_are_told_with_its_place() -> None:
    planned = plan("jobs:\n- {run: [a]}\n- ops:\n  - {OP_ID: OP_A}\n  - {OP_ID: OP_B}\n")

    assert planned.located("job 1, opcode 1: no") == "p.yaml:2:3: job 1, opcode 1: no"
    assert planned.located("job 2, opcode 2: no") == "p.yaml:5:5: job 2, opcode 2: no"
    assert planned.located("job 2: no") == "p.yaml:4:5: job 2: no"
    assert planned.located("the queue is drained") == "the queue is drained"
    assert planned.located("job 9, opcode 1: no") == "job 9, opcode 1: no"


def test_opcodes_in_json_have_their_places_too() -> None:
    one = plan('[{"OP_ID": "A"},\n {"OP_ID": "B"}]', "f.json")
    several = plan('[[{"OP_ID": "A"}],\n [{"OP_ID": "B"},\n{"OP_ID": "C"}]]', "f.json")
    single = read_plan(read_document(b'\n {"OP_ID": "A"}', "f.json"))

    assert one.located("opcode 2: no") == "f.json:2:2: opcode 2: no"
    assert several.located("job 2, opcode 2: no") == "f.json:3:1: job 2, opcode 2: no"
    assert single.located("opcode 1: no") == "f.json:2:2: opcode 1: no"


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_the_examples_are_plans(path: Path) -> None:
    found = read_plan(read_document(path.read_bytes(), path.name))

    assert len(found.jobs) >= 3
    for op in (op for job in found.jobs for op in job.to_input(1)):
        parse_opcode(op)


def test_the_schema_has_each_key_with_its_help() -> None:
    schema: Any = plan_schema()

    job = schema["properties"]["jobs"]["items"]["properties"]
    assert {"name", "labels", "run", "shell", "ops", "after", "retries", "begin"} <= job.keys()
    assert all(each.get("description") for each in job.values())
    assert "run" not in schema["properties"]["defaults"]["properties"]
