"""Verbs with `--remote` do the same as here: same output, same exit codes, over HTTPS."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import orjson
import pytest

from cli.job.main import group
from cli.program import exit_code
from protocol.luxi.queries import QueryJobs
from tests.cli.command import Ended
from tests.cli.remote.place import Capture, Place
from tests.support.cluster import FINAL
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


@pytest.fixture(scope="module")
def here(web: Web) -> Place:
    return Place(("--root", str(web.paths.data.parent)))


@pytest.fixture(scope="module")
def there(web: Web, token: str) -> Place:
    token_file = web.paths.data / "ci-token"
    token_file.write_text(f"{token}\n")
    token_file.chmod(0o600)
    return Place(("--remote", web.url, "--ca", str(web.paths.rapi_pem), "--token-file", str(token_file)))


@pytest.fixture(scope="module")
def ended(here: Place, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int, int]:
    """A job that succeeded, one that failed, one that was canceled."""
    plan = tmp_path_factory.mktemp("plan") / "plan.json"
    argv = ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]
    plan.write_bytes(
        orjson.dumps(
            [
                [{"OP_ID": "OP_TEST_DELAY", "duration": 0.01}, {"OP_ID": "OP_TEST_DELAY", "duration": 0.01}],
                [{"OP_ID": "OP_RUN_COMMAND", "argv": argv, "locks": {"node/n1": "shared"}}],
                [{"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "depends": [[-1, ["success"]]]}],
            ]
        )
    )
    with redirect_stdout(io.StringIO()) as told:
        assert exit_code(group, "gnt-job", [*here.words, "submit", "--wait", "--print-jobid", str(plan)]) == 1
    first, second, third = (int(line) for line in told.getvalue().splitlines()[:3])
    return first, second, third


# 1, 2 and 3 stand for the jobs that have ended
READS: list[tuple[object, ...]] = [
    ("list",),
    ("list", "--output", "json"),
    ("list", 2, 1, 99999, "-o", "id,status,runtime,received_ts,user"),
    ("list", "--where", "op=OP_TEST_DELAY & status=canceled", "-o", "id,summary,opstatus,oplog"),
    ("list", "-o", "+nosuch"),
    ("list", "--mine", "--failed"),
    ("list", "--archived", 1, 99999),
    # with a note on jobs that the filter could not judge
    ("list", "--where", "start_ts>0"),
    ("list", "--where", "("),
    ("list-fields",),
    ("list-fields", "status", "nosuch"),
    ("info", 1, 2, 3, 99999),
    ("info", "--output", "json", 1, 2, 3),
    ("why", 1, 2, 3, 99999),
    ("why", "--output", "json", 2, 3),
    ("output", 2),
    ("output", "--output", "json", 2),
    ("output", "--stderr", 2),
    ("output", 99999),
    ("output", "--follow", 2),
    ("wait", 1),
    ("wait", 1, 2),
    ("wait", 99999),
    ("wait", "--output", "json", 1, 3),
    ("watch", 1),
    ("watch", 2),
    ("watch", 99999),
    ("watch", "--output", "json", 1),
    ("watch", 1, 2, 3),
    ("cancel", 1),
    ("cancel", 99999),
    ("cancel", "--where", "status=error"),
    ("cancel", "--where", "status=queued", "--dry-run"),
    ("archive", "--where", "status=error", "--dry-run"),
    ("archive", "--finished", "--dry-run", "--output", "json"),
    ("archive", 99999),
    ("change-priority", "--priority", "low", 1),
]


@pytest.mark.parametrize("words", READS, ids=lambda words: " ".join(map(str, words)))
def test_a_verb_tells_the_same_over_http(
    web: Web, here: Place, there: Place, capsys: Capture, ended: tuple[int, int, int], words: tuple[object, ...]
) -> None:
    words = tuple(ended[word - 1] if isinstance(word, int) and word <= 3 else word for word in words)
    # those of other tests, which change no more
    wait_until(lambda: {status for (status,) in all_jobs(web)} <= set(FINAL), what="all jobs are final")

    near, far = here.run(capsys, *words), there.run(capsys, *words)

    assert there.normal(far) == here.normal(near)


def all_jobs(web: Web) -> Sequence[Sequence[object]]:
    return web.cluster.luxi(QueryJobs(None, ("status",)))


def _submit_plan(place: Place, capsys: Capture, plan: Path) -> list[int]:
    ops = [[{"OP_ID": "OP_TEST_DELAY", "duration": 60.0}] for _ in range(2)]
    waiting = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "depends": [[-1, ["success"]]]}
    plan.write_bytes(orjson.dumps([*ops, [waiting]]))
    told = place.run(capsys, "submit", plan)
    assert told.code == 0
    return [int(line) for line in told.out.split()]


@pytest.mark.parametrize("name", ["here", "there"])
def test_jobs_are_submitted_changed_and_canceled(
    request: pytest.FixtureRequest, name: str, capsys: Capture, tmp_path: Path
) -> None:
    place: Place = request.getfixturevalue(name)
    first, second, waiting = _submit_plan(place, capsys, tmp_path / "plan.json")

    assert place.run(capsys, "wait", "--timeout", "0.01", first).code == 1
    assert place.run(capsys, "change-priority", "--priority", "high", waiting).code == 0
    assert orjson.loads(place.run(capsys, "list", waiting, "--output", "json", "-o", "priority").out) == [
        {"priority": -10}
    ]
    why = place.run(capsys, "why", waiting)
    assert f"waits for job/{second}" in why.out
    dry = place.run(capsys, "cancel", "--where", f"id>{first} & id<={waiting}", "--kill", "--dry-run", "--output=json")
    assert orjson.loads(dry.out) == [second, waiting]
    # the last one first: those that wait for a killed job are canceled with it
    assert place.run(capsys, "cancel", "--kill", "--force", waiting, second, first).code == 0
    place.run(capsys, "wait", first, second, waiting)
    assert place.run(capsys, "archive", "--where", f"id>={first}", "--force").code == 0
    assert place.run(capsys, "autoarchive", "1h").out == "Archived 0 jobs, 0 unchecked left\n"


@pytest.mark.parametrize("name", ["here", "there"])
def test_a_command_gives_its_output_and_exit_code(request: pytest.FixtureRequest, name: str, capsys: Capture) -> None:
    place: Place = request.getfixturevalue(name)

    told = place.run(capsys, "run", "--wait", "--stderr", "apart", "--", "/bin/sh", "-c", "echo a; echo b >&2; exit 7")

    assert (told.code, told.out) == (7, "a\n")
    assert told.err.startswith("b\n")


def test_many_jobs_are_followed_over_one_connection(there: Place, capsys: Capture, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(orjson.dumps([[{"OP_ID": "OP_RUN_COMMAND", "argv": ["sleep", "0.2"]}] for _ in range(5)]))

    told = there.run(capsys, "submit", "--wait", plan)

    assert (told.code, told.err) == (0, "")
    ends = [line.split()[0] for line in told.out.splitlines() if line.split()[1] == "success"]
    assert len(set(ends)) == 5
    assert there.run(capsys, "wait", *ends).code == 0


def test_a_command_runs_in_no_folder_of_this_machine(there: Place, capsys: Capture) -> None:
    assert there.run(capsys, "run", "--wait", "--", "pwd").out == "/\n"
    assert there.run(capsys, "run", "--wait", "--cwd", "/usr", "--", "pwd").out == "/usr\n"
    assert there.run(capsys, "run", "--cwd", "usr", "--", "pwd").code == 2
    assert there.run(capsys, "run", "--stdin", "file", "--", "cat").code == 2


def test_hints_name_the_cluster(there: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = int(there.run(capsys, "run", "--", "sleep", "60").out)

    told = there.run(capsys, "wait", "--timeout", "0.01", job_id)

    assert f"gnt-job {' '.join(there.words)} wait {job_id}" in told.err
    assert there.run(capsys, "cancel", "--kill", job_id).code == 0


def test_variables_name_the_cluster(
    web: Web, there: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch, ended: tuple[int, int, int]
) -> None:
    monkeypatch.setenv("GANTRY_REMOTE", web.url)
    monkeypatch.setenv("GANTRY_CA", str(web.paths.rapi_pem))
    monkeypatch.setenv("GANTRY_TOKEN", Path(there.words[-1]).read_text().strip())

    assert Place().run(capsys, "list", ended[0], "-o", "id", "--no-headers").out.split() == [str(ended[0])]
    # the folder named on the command line counts more than the variable
    assert Place(("--root", str(web.paths.data.parent / "none"))).run(capsys, "list").code == 3
    assert "exclude each other" in Place(("--root", "/x", "--remote", web.url)).run(capsys, "list").err


def test_filters_are_set_elsewhere(web: Web, here: Place, there: Place, capsys: Capture) -> None:
    from cli.filter.main import group as filters

    def run(*words: str) -> Ended:
        code = exit_code(filters, "gnt-filter", [*there.words, *words])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    added = run("pause", "--where", "reason=~never", "--reason", "because")
    uuid = added.out.strip()
    assert (added.code, uuid.count("-")) == (0, 4)
    assert uuid in run("list").out
    assert "because" in run("info", uuid).out
    assert run("pause", "--where", "op=OP_NOSUCH", "--dry-run").code == 0
    assert run("delete", uuid).code == 0
    assert uuid not in run("list").out


def test_a_command_for_each_node_is_submitted_and_followed_from_elsewhere(there: Place, capsys: Capture) -> None:
    told = there.run(capsys, "run", "--each-node", "--at-most", "1", "--wait", "--", "echo", "hello")
    listed = there.run(capsys, "list", "--output", "json", "-o", "id,status,node,batch", "--where", "node!=''")

    assert (told.code, told.out) == (0, "hello\n")
    (row,) = orjson.loads(listed.out)
    assert (row["status"], len(row["batch"])) == ("success", 12)
    again = there.run(capsys, "wait", "--where", f"batch={row['batch']}")
    assert again == Ended(0, "", "")
    assert there.run(capsys, "run", "--node", "nobody", "--", "true").err.startswith("error: there is no node 'nobody'")
