"""`gnt-group` and the verbs on tags, where the recorded calls of Ganeti's do not show it (opcodes.md 4; cli.md 1)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import command
from tests.cli.command import Ended
from tests.cli.verbs.gantry.test_completion import complete
from tests.support.cluster import Cluster


class Programs:
    """Our programs on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __call__(self, program: str, verb: str, *words: object, stdin: str = "") -> Ended:
        return command.run(program, verb, "--root", self.cluster.root, *words, stdin=stdin)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """A cluster with the groups default and rack2."""
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start()
        programs = Programs(cluster)
        assert programs("gnt-group", "add", "rack2") == Ended(0, "", "")
        yield programs


def test_a_refusal_is_an_error_in_one_line_that_names_the_next_step(run: Programs) -> None:
    full = run("gnt-group", "remove", "default")

    assert (full.code, full.out, full.err.count("\n")) == (1, "", 1)
    assert "put them into another group first: gnt-group assign-nodes GROUP NODE..." in full.err


def last_line(ended: Ended) -> object:
    """The result; before it stands how the job went."""
    return json.loads(ended.out.splitlines()[-1])


def test_results_are_json_if_they_are_wanted_so(run: Programs) -> None:
    changed = run("gnt-group", "modify", "--output", "json", "--node-parameters", "ssh_port=23", "rack2")
    assert last_line(changed) == {"group": "rack2", "changes": [["ndparams", "{'ssh_port': 23}"]]}

    assert run("gnt-group", "add-tags", "rack2", "b", "a") == Ended(0, "", "")
    assert json.loads(run("gnt-group", "list-tags", "--output", "json", "rack2").out) == ["a", "b"]
    found = run("gnt-cluster", "search-tags", "--output", "json", "^a$")
    assert last_line(found) == [["/nodegroup/rack2", "a"]]
    nothing = run("gnt-cluster", "search-tags", "--output", "json", "^nothing$")
    assert (nothing.code, last_line(nothing)) == (1, [])
    (row,) = json.loads(run("gnt-group", "info", "--output", "json", "rack2").out)
    assert (row["custom_ndparams"], row["tags"], row["node_list"]) == ({"ssh_port": 23}, ["a", "b"], [])
    assert json.loads(run("gnt-group", "list", "--output", "json", "-o", "name,node_cnt", "rack2").out) == [
        {"name": "rack2", "node_cnt": 0}
    ]


def test_tags_come_from_a_file_too_and_blank_lines_do_not_count(run: Programs, tmp_path: Path) -> None:
    (tmp_path / "tags").write_text("file:1\n\n file:2 \n")

    assert run("gnt-node", "add-tags", "--from", tmp_path / "tags", "node1", "word") == Ended(0, "", "")
    assert run("gnt-node", "list-tags", "node1.test").out == "file:1\nfile:2\nword\n"
    assert run("gnt-node", "remove-tags", "--from", "-", "node1", stdin="file:1\nword\n\n").code == 0
    assert run("gnt-node", "list-tags", "node1").out == "file:2\n"
    missing = run("gnt-node", "add-tags", "--from", tmp_path / "none", "node1")
    assert (missing.code, missing.out) == (2, "")
    assert "none" in missing.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("modify", "rack2"), "nothing to change; name a value, as in: gnt-group modify --alloc-policy preferred"),
        (("modify", "-D", "plain", "rack2"), "'plain' is not of the form TEMPLATE:NAME=VALUE"),
        (("modify", "-D", ":a=1", "rack2"), "':a=1' is not of the form TEMPLATE:NAME=VALUE"),
        (("modify", "-D", "round:a=1", "rack2"), "there is no disk template 'round'; known are diskless, "),
        (("modify", "--node-parameters", "ssh_port", "rack2"), "'ssh_port' has no value; write name=value"),
        (("modify", "--ipolicy-vcpu-ratio", "x", "rack2"), "'x' is neither a number from 0 on nor 'default'"),
        (("modify", "--ipolicy-bounds-specs", "min:", "rack2"), "'' of min cannot be limited; known are memory-size"),
        (("modify", "--alloc-policy", "prefered", "rack2"), "preferred"),
        (("assign-nodes", "rack2"), "missing argument 'NODE...'"),
        (("add-tags", "rack2"), "no tags are named; add them to the command, or name a file: --from FILE"),
        (("assing-nodes", "rack2"), "did you mean 'assign-nodes'?"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_submitted(
    run: Programs, words: tuple[str, ...], told: str
) -> None:
    ended = run("gnt-group", *words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert told in ended.err


def test_a_job_that_is_not_waited_for_is_named(run: Programs) -> None:
    submitted = run("gnt-group", "rename", "--submit", "--priority", "high", "--reason", "sort", "rack2", "rack2b")

    assert (submitted.code, submitted.out) == (0, "")
    job_id = int(submitted.err.removeprefix("JobID: "))
    assert run.cluster.wait(job_id) == ["success"]
    ((op,),) = run.cluster.job(job_id, "ops")
    assert (op["priority"], op["reason"][1][:2]) == (-10, ["gnt:user", "sort"])
    assert run("gnt-group", "rename", "--print-jobid", "rack2b", "rack2").out == f"{job_id + 1}\n"


def test_names_of_groups_complete_for_all_their_verbs(run: Programs) -> None:
    for verb in ("modify", "add-tags"):
        assert complete("gnt-group", "--root", run.cluster.root, verb, "rack") == ["rack2"]
    assert complete("gnt-group", "--root", run.cluster.root, "assign-nodes", "rack2", "no") == ["node1.test"]
    assert complete("gantry", "group", "assi") == ["assign-nodes"]


@pytest.mark.parametrize("program", ["gnt-cluster", "gnt-node", "gnt-group", "gnt-network"])
def test_the_help_of_the_verbs_on_tags_has_an_example_for_each_program(run: Programs, program: str) -> None:
    for verb in ("list-tags", "add-tags", "remove-tags"):
        told = run(program, verb, "--help")

        assert told.code == 0
        assert f"{program} {verb}" in told.out.partition("Examples")[2]


def test_numbers_without_a_fraction_are_told_and_saved_as_whole_ones(run: Programs) -> None:
    words = ("--ipolicy-vcpu-ratio", "4", "--ipolicy-spindle-ratio", "32.5", "--node-parameters", "cpu_speed=2")
    assert run("gnt-group", "modify", *words, "rack2").code == 0

    told = run("gnt-group", "info", "--output", "json", "rack2").out
    saved = run.cluster.paths.config_data.read_text()
    for text in (saved, told.replace(": ", ":")):
        assert '"cpu_speed":2' in text
        assert '"vcpu-ratio":4' in text
        assert '"spindle-ratio":32.5' in text
        assert '"cpu_speed":2.0' not in text
        assert '"vcpu-ratio":4.0' not in text
