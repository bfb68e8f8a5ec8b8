"""What every program does alike: options, errors, exit codes, help. Source: cli.md 1."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cli.cluster.main import group as cluster
from cli.commands import CommandGroup
from cli.debug.main import group as debug
from cli.filter.main import group as filters
from cli.gantry.main import group as gantry
from cli.job.main import group as job
from cli.node.main import group as node
from cli.program import exit_code
from common.paths import Paths
from common.system.program import release
from tests.cli.command import CHECKOUT, Ended, environment, run
from tests.cli.fakeluxid import AT, FakeJob, fake_luxid


def test_a_daemon_that_does_not_run_is_3_and_the_command_that_starts_it(tmp_path: Path) -> None:
    expected = Ended(3, "", f"error: luxid is not running; start it with: gantry --root {tmp_path} up\n")

    assert run("gnt-job", "--root", tmp_path, "list") == expected
    assert run("gnt-job", "list", "--root", tmp_path) == expected
    assert run("gantry", "job", "list", env={"GANTRY_ROOT": str(tmp_path)}) == expected


def test_no_installation_at_all_is_3_and_the_places_that_were_looked_at() -> None:
    ended = run("gnt-job", "list")

    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: no installation found: no --root given, $GANTRY_ROOT not set, no file ")
    assert ended.err.endswith("; start one with: gantry --root DIR up\n")


def test_an_empty_root_is_2_and_makes_no_cluster(tmp_path: Path) -> None:
    ended = run("gantry", "--root", "", "up", "--detach", cwd=tmp_path)

    error = "error: invalid value for '--root': it is empty; name a folder, '.' is the one you are in\n"
    assert ended == Ended(2, "", error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["gantry up", "gantry status", "gnt-job list", "gnt-job why 5", "gnt-cluster verify"])
def test_a_root_too_long_for_a_socket_is_2_and_not_to_be_started(tmp_path: Path, words: str) -> None:
    program, *verb = words.split()

    ended = run(program, "--root", tmp_path / ("x" * 120), *verb)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: the socket path is ")
    assert ended.err.endswith("; choose a shorter root or run folder\n")


def test_bad_settings_are_2_with_file_and_key(tmp_path: Path) -> None:
    (tmp_path / "gantry.toml").write_text("[luxid]\nmax_runing_jobs = 3\n")

    ended = run("gnt-job", "--root", tmp_path, "list")

    assert ended.code == 2
    assert ended.err == (
        f"error: {tmp_path}/gantry.toml: unknown key 'max_runing_jobs' in '[luxid]'; did you mean 'max_running_jobs'?\n"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["lst"], "no such command 'lst'; did you mean 'list'?"),
        (["list", "--finishd"], "no such option '--finishd'; did you mean '--finished'?"),
        (["why"], "missing argument 'ID...'; see 'gnt-job why --help'"),
        (["watch"], "name jobs by their ids, by --batch ID, or by --where FILTER; see 'gnt-job watch --help'"),
        (
            ["watch", "x"],
            "'x' is not a job id; write one such as 7, several as 7,8 or 2-5, or PREV; 'gnt-job list' shows them",
        ),
        (["why", str(2**63)], f"'{2**63}' is not a job id; the largest is {2**63 - 1}"),
        (
            ["run", "--after", "9" * 5000, "x"],
            f"invalid value for '--after' / '--depend': '{'9' * 38}...' is not a job id",
        ),
        (["change-priority", "high", "1"], "missing option '--priority'; choices are low, normal, high\n"),
        (["list", "--output", "xml"], "invalid value for '--output': 'xml' is not one of 'text', 'json'; see "),
    ],
)
def test_typing_errors_are_2_and_say_what_was_meant(words: list[str], error: str) -> None:
    ended = run("gnt-job", *words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {error}")
    assert ended.err.count("\n") == 1


def test_an_unexpected_error_is_one_line_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    # the command cannot know what to do with a job whose summary is no list
    with fake_luxid(paths.query_socket, FakeJob(5, priority={1: 2}, results=7)):  # type: ignore[arg-type]
        ended = run("gnt-job", "watch", "5", env={"GANTRY_ROOT": str(tmp_path)})

    assert ended.code == 1
    assert ended.err.startswith("error: internal error ")
    assert ended.err.count("\n") == 1
    bug_id = ended.err.split()[3]
    log = (paths.log / "commands.log").read_text()
    assert f"command.crashed id={bug_id}" in log
    assert "TypeError" in log


@pytest.mark.parametrize("group", [gantry, job, filters, debug, node, cluster], ids=lambda group: group.name)
def test_help_lists_every_command_and_each_has_help_of_its_own(
    group: CommandGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(group.name)
    ended = run(program, "--help")

    assert (ended.code, ended.err) == (0, "")
    listed = ended.out.partition("Commands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names
    for name in names:
        # a process for each of them would cost much time, and tell no more
        assert exit_code(group, program, [name, "--help"]) == 0
        own = capsys.readouterr()
        assert own.err == ""
        assert own.out.startswith(f"Usage: {program} {name} ")


@pytest.mark.parametrize("group", [gantry, job, filters, debug, node, cluster], ids=lambda group: group.name)
def test_each_program_tells_its_version(group: CommandGroup, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(group, str(group.name), ["--version"]) == 0
    assert capsys.readouterr() == (f"{group.name} {release()}\n", "")


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    jobs = [FakeJob(number, summary=["X" * 100]) for number in range(1, 3000)]
    with fake_luxid(paths.query_socket, *jobs):
        words = f"{sys.executable} -P -c 'from cli.job.main import main; main()' --root {tmp_path} list | head -1"
        ended = subprocess.run(
            words, shell=True, capture_output=True, text=True, env=environment(), check=False, timeout=60
        )

    assert ended.stdout.startswith("  ID  STATUS")
    assert ended.stderr == ""


@pytest.mark.parametrize("words", ["list", "why 5", "info 5", "output 5", "wait 5"])
def test_closed_standard_output_swallows_the_results_and_nothing_else(tmp_path: Path, words: str) -> None:
    with _a_job_that_ended(tmp_path):
        assert _in_shell("cli.job.main", f"{words} >&-", tmp_path) == Ended(0, "", "")
        assert _in_shell("cli.job.main", f"{words} <&- >&- 2>&-", tmp_path) == Ended(0, "", "")


def test_closed_standard_error_swallows_the_errors_and_nothing_else(tmp_path: Path) -> None:
    with _a_job_that_ended(tmp_path):
        assert _in_shell("cli.job.main", "list --no-headers -o id,sumary 2>&-", tmp_path) == Ended(14, "5  ??\n", "")


def test_closed_standard_input_is_an_error_for_who_reads_it_and_no_answer_for_who_asks(tmp_path: Path) -> None:
    error = "error: standard input is closed; name a file, or pipe the jobs in\n"
    with _a_job_that_ended(tmp_path):
        assert _in_shell("cli.job.main", "submit - <&-", tmp_path) == Ended(2, "", error)
        tags = _in_shell("cli.cluster.main", "add-tags --from - <&-", tmp_path)
        asked = _in_shell("cli.job.main", "archive --finished <&-", tmp_path)

    assert (tags.code, tags.out) == (2, "")
    assert "standard input is closed; name a file, or pipe the tags in" in tags.err
    assert (asked.code, asked.out) == (13, "")
    assert asked.err.endswith("\nnothing was changed; to archive them without this question add --force\n")


def _a_job_that_ended(root: Path) -> AbstractContextManager[object]:
    paths = Paths.under_root(root)
    paths.make_folders()
    return fake_luxid(paths.query_socket, FakeJob(5, "success", start_ts=AT, end_ts=AT))


def _in_shell(module: str, words: str, root: Path) -> Ended:
    command = f"{sys.executable} -P -W error -c 'from {module} import main; main()' --root {root} {words}"
    ended = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=environment(), check=False, timeout=60
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize("module", ["cli.job.main", "cli.job.list", "cli.job.watch", "daemons.supervisor.main"])
def test_a_start_imports_neither_trio_nor_rich_nor_an_http_client(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'trio', 'rich', 'asyncio', 'httpx2', 'ssl'}} & set(sys.modules)))"

    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment(), cwd=CHECKOUT, check=True
    )

    assert ended.stdout == "[]\n"
