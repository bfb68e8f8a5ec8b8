"""What no command can be run with is refused when it is submitted, not in the job (issue 9, 3.9)."""

import math
import re
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.locks import LONGEST_NAME
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Dependency
from common.wire import read_job_id, structure


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"env": {"A=B": "x"}}, "env: 'A=B' names no variable; it may hold neither '=' nor a zero byte"),
        ({"env": {"A\0": "x"}}, r"env: 'A\x00' names no variable"),
        ({"env": {"": "x"}}, "env: '' names no variable"),
        ({"env": {"A": "x\0"}}, "env: the value of 'A' must not contain a zero byte"),
        ({"user": ""}, "user must be a user's name of 1 to 256 printable characters, got ''"),
        ({"user": "root\0"}, r"user must be a user's name of 1 to 256 printable characters, got 'root\x00'"),
        ({"user": "a" * 257}, "user must be a user's name of 1 to 256 printable characters"),
        ({"cwd": "srv"}, "cwd must be an absolute path without zero bytes, got 'srv'"),
        ({"cwd": ""}, "cwd must be an absolute path without zero bytes, got ''"),
        ({"cwd": "/a\0b"}, r"cwd must be an absolute path without zero bytes, got '/a\x00b'"),
        ({"stdin_path": "dump"}, "stdin_path must be an absolute path without zero bytes, got 'dump'"),
        ({"timeout": math.nan}, "timeout must be at least 0, got nan"),
        ({"timeout": math.inf}, "timeout must be at most 1e+09, got inf"),
        ({"timeout": 1e10}, "timeout must be at most 1e+09, got 1e+10"),
        ({"timeout": -1}, "timeout must be at least 0, got -1"),
        ({"exit_codes": [0, 999]}, "exit_codes: a command ends with a code from 0 to 255, not with 999"),
        ({"exit_codes": [-1]}, "exit_codes: a command ends with a code from 0 to 255, not with -1"),
        ({"locks": {"node/": "shared"}}, "locks: 'node/' names nothing; write it as 'node/NAME'"),
        (
            {"locks": {"node/a\x1b[2J": "shared"}},
            r"the lock name 'node/a\x1b[2J' has characters that cannot be printed",
        ),
        (
            {"locks": {"node/" + "a" * (LONGEST_NAME + 1): "shared"}},
            f"aaa...' has {LONGEST_NAME + 1} characters after its level, of at most {LONGEST_NAME}",
        ),
        ({"retries": 1001}, "retries must be at most 1000, got 1001"),
        ({"retry_delay": 5}, "retry_delay is for commands with retries; say how many, or leave it out"),
        ({"fail_on": ["exit=2"]}, "fail_on is for commands with retries"),
        ({"retries": 1, "retry_factor": 0.5}, "retry_factor must be at least 1, got 0.5"),
        ({"retries": 1, "retry_delay": 60, "retry_max": 30}, "retry_delay must be at most retry_max, got 60 and 30"),
        (
            {"retries": 1, "retry_on": ["exit 75"]},
            "retry_on: 'exit 75' names no failure of a command; write one of exit=CODE,",
        ),
        (
            {"retries": 1, "retry_on": ["exit=75-70"]},
            "retry_on: 'exit=75-70': a command ends with a code from 0 to 255",
        ),
        ({"retries": 1, "fail_on": ["exit=256"]}, "fail_on: 'exit=256': a command ends with a code from 0 to 255"),
        ({"retries": 1, "fail_on": ["signal=FOO"]}, "fail_on: 'signal=FOO': there is no such signal"),
        (
            {"retries": 1, "detach": True},
            "retries and detach exclude each other: what a try leaves running would run beside the next one",
        ),
        ({"rerunnable": True, "detach": True}, "rerunnable and detach exclude each other"),
        ({"debug_level": 1e308}, "expected int, got 1e+308"),
        ({"depends": [["9" * 5000, []]]}, "a dependency is [job id, [states]]"),
    ],
)
def test_what_no_command_can_run_with_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **given})


def test_what_a_command_can_run_with_is_taken() -> None:
    given = {
        "env": {"A": "b=c", "größe": "1"},
        "user": "backup",
        "cwd": "/srv/größe",
        "timeout": 1e9,
        "exit_codes": [0, 255],
        "locks": {"node/" + "a" * LONGEST_NAME: "shared", "instance/web 1": "exclusive", "node/[lockset]": "shared"},
    }

    assert parse_opcode({"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **given})


@pytest.mark.parametrize("duration", [math.nan, math.inf, 2e9])
def test_a_delay_without_an_end_is_refused(duration: float) -> None:
    with pytest.raises(InvalidRequest, match="duration must be at"):
        parse_opcode({"OP_ID": "OP_TEST_DELAY", "duration": duration})


@pytest.mark.parametrize("value", [1e308, 2**63, -1, "9" * 19 + "9", "9" * 5000, 0.5, True, None])
def test_numbers_that_no_job_can_have_are_no_ids(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a job id"):
        read_job_id(value)


def test_whole_numbers_have_63_bits() -> None:
    assert structure(2**63 - 1, int) == 2**63 - 1
    for value in (2**63, -(2**63), 1e300, math.inf, math.nan):
        with pytest.raises(InvalidRequest, match="expected int"):
            structure(value, int)


def test_a_dependency_by_text_is_a_number_of_a_job() -> None:
    assert Dependency.from_wire(["12", []]).job_id == 12
