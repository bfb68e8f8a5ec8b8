"""`gnt-job run`: the options become the parameters of OP_RUN_COMMAND. Source: DESIGN section 7."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.opcodes.command import OpRunCommand
from common.opcodes.registry import parse_opcode
from tests.cli.command import Ended
from tests.cli.fakeluxid import FakeLuxid

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


def submitted(luxid: FakeLuxid) -> dict[str, Any]:
    (call,) = luxid.calls
    (op,) = call.job
    # luxid will read it so; an option that it does not know would be refused
    assert isinstance(parse_opcode(op), OpRunCommand)
    return dict(op)


def test_words_behind_the_command_are_its_own_and_run_here(start_luxid: Start, job: Job, tmp_path: Path) -> None:
    luxid = start_luxid()

    ended = job("run", "ls", "--wait", "-l", cwd=tmp_path)

    assert ended == Ended(0, "1\n", "")
    op = submitted(luxid)
    assert op["argv"] == ["ls", "--wait", "-l"]
    assert op["cwd"] == str(tmp_path)
    assert op["exit_codes"] == [0]


def test_options_become_parameters(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    ended = job(
        *("run", "--lock", "node/web1:shared", "--lock", "network/fe80::1", "--lock", "instance/[lockset]"),
        *("--after", "7", "--depend", "8:success,canceled", "--timeout", "2m", "--cwd", "/srv"),
        *("--env", "A=b=c", "--env", "HERE", "--shell", "--exit-code", "0", "--exit-code", "3", "--", "make; true"),
        env={"HERE": "now"},
    )

    assert ended == Ended(0, "1\n", "")
    op = submitted(luxid)
    assert op["locks"] == {"node/web1": "shared", "network/fe80::1": "exclusive", "instance/[lockset]": "exclusive"}
    assert op["depends"] == [[7, ["success"]], [8, ["success", "canceled"]]]
    assert (op["timeout"], op["cwd"], op["env"]) == (120.0, "/srv", {"A": "b=c", "HERE": "now"})
    assert (op["shell"], op["exit_codes"], op["argv"]) == (True, [0, 3], ["make; true"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--lock", "web1", "x"], "invalid value for '--lock': lock name 'web1' has no level; write it as 'node/NAME'"),
        (["--lock", "nod/web1", "x"], "invalid value for '--lock': unknown lock level 'nod'; levels are cluster, "),
        (["--lock", "node/", "x"], "invalid value for '--lock': lock name 'node/' names nothing; write it as 'node/NA"),
        (
            ["--lock", "node/x:Shared", "x"],
            "invalid value for '--lock': 'Shared' is not a lock mode; write shared or ex",
        ),
        (
            ["--lock", "node/x:bad", "x"],
            "invalid value for '--lock': 'bad' is not a lock mode; write shared or exclusi",
        ),
        (
            ["--lock", "node/x:", "x"],
            "invalid value for '--lock': '' is not a lock mode; write shared or exclusive, or",
        ),
        (["--lock", "node/a::1:share", "x"], "invalid value for '--lock': 'share' is not a lock mode; write shared "),
        (["--after", "7:done", "x"], "invalid value for '--after' / '--depend': no job ends as 'done'; write canceled"),
        (
            ["--cpus", "nan", "x"],
            "invalid value for '--cpus': 'nan' is not a number of processors; write one such as 2 or",
        ),
        (
            ["--cpus", "inf", "x"],
            "invalid value for '--cpus': 'inf' is not a number of processors; write one such as 2 or",
        ),
        (["--env", "=1", "x"], "invalid value for '--env': '=1' names no variable; write NAME=VALUE"),
        (
            ["--timeout", "0", "x"],
            "invalid value for '--timeout': '0' is too short; it must be longer than 0\n",
        ),
        (
            ["--timeout", "soon", "x"],
            "invalid value for '--timeout': 'soon' is not a duration; write seconds, or a numb",
        ),
        ([], "missing argument '[--] COMMAND...'; see 'gnt-job run --help'"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_submitted(
    start_luxid: Start, job: Job, words: list[str], error: str
) -> None:
    luxid = start_luxid()

    ended = job("run", *words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {error}")
    assert ended.err.count("\n") == 1
    assert luxid.calls == []


@pytest.mark.parametrize("words", [["echo", "a\udcff"], ["--env", "A=\udcff", "true"], ["--cwd", "/\udcff", "true"]])
def test_bytes_that_are_no_utf8_are_refused_in_words(start_luxid: Start, job: Job, words: list[str]) -> None:
    luxid = start_luxid()

    ended = job("run", *words)

    assert ended.code == 2
    assert "\\xff' is not UTF-8, and a job is text; " in ended.err
    assert luxid.calls == []


def test_a_lock_whose_name_has_a_colon_is_written_with_its_mode(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    names = ("node/web:8080:exclusive", "network/fe80::bad", "network/fe80::1:shared")
    ended = job("run", *(word for name in names for word in ("--lock", name)), "true")

    assert ended.code == 0
    assert submitted(luxid)["locks"] == {
        "node/web:8080": "exclusive",
        "network/fe80::bad": "exclusive",
        "network/fe80::1": "shared",
    }


def test_input_and_standard_error_become_parameters(start_luxid: Start, job: Job, tmp_path: Path) -> None:
    luxid = start_luxid()

    assert job("run", "--stdin", "in", "--stderr", "apart", "cat", cwd=tmp_path).code == 0
    assert job("run", "--stdin-text", "two\nlines", "--stderr", "joined", "cat").code == 0
    assert job("run", "--stdin", "-", "cat", stdin="piped").code == 0

    first, second, third = (call.job[0] for call in luxid.calls)
    assert (first["stdin_path"], first["stderr_apart"]) == (str(tmp_path / "in"), True)
    assert (second["stdin_text"], "stderr_apart" in second) == ("two\nlines", False)
    assert (third["stdin_text"], "stdin_path" in third) == ("piped", False)


def test_two_inputs_are_refused(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    ended = job("run", "--stdin", "in", "--stdin-text", "x", "cat")

    assert (ended.code, luxid.calls) == (2, [])
    assert ended.err == "error: --stdin and --stdin-text exclude each other; give one of them\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--exit-code", "999"), "999 is not in the range 0<=x<=255"),
        (("--lock", "node/a:shared", "--lock", "node/a"), "--lock names 'node/a' as shared and as exclusive"),
        (("--lock", "node/\x1b[2J"), "has characters that cannot be printed"),
        (("--user", ""), "--user ''"),
        (("--wait-timeout", "5s"), "--wait-timeout has no effect without --wait; add that, or leave it out\n"),
        (("--raw",), "--raw has no effect without --wait; "),
        (("--exit", "max"), "--exit has no effect without --wait; "),
    ],
)
def test_what_no_command_can_run_with_is_a_wrong_usage(job: Job, words: tuple[str, ...], message: str) -> None:
    """No daemon is asked: there is none."""
    ended = job("run", *words, "--", "true")

    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_limits_become_parameters(start_luxid: Start, job: Job) -> None:
    luxid = start_luxid()

    words = (
        "--memory",
        "1.5G",
        "--cpus",
        "0.5",
        "--nice",
        "10",
        "--ulimit",
        "nofile=10:20",
        "--ulimit",
        "core=unlimited",
    )
    assert job("run", *words, "true").code == 0

    op = submitted(luxid)
    assert (op["memory"], op["cpus"], op["nice"]) == (3 * 2**29, 0.5, 10)
    assert op["ulimits"] == {"nofile": [10, 20], "core": [-1]}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--memory", "much"), "'much' is not a size; write bytes, or a number with K, M, G or T"),
        (("--ulimit", "files=3"), "there is no limit 'files'; they are as, core, "),
        (
            ("--ulimit", "nofile=many"),
            "'nofile=many' is not a limit; write nofile=SOFT[:HARD]",
        ),
    ],
)
def test_a_wrong_limit_is_refused(start_luxid: Start, job: Job, words: tuple[str, ...], error: str) -> None:
    luxid = start_luxid()

    ended = job("run", *words, "true")

    assert (ended.code, luxid.calls) == (2, [])
    assert error in ended.err
