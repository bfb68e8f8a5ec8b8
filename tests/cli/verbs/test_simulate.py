"""`gnt-debug simulate`: what is printed for a trace that can be worked out by hand."""

import importlib.util
import json
from pathlib import Path

import pytest

from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from tests.cli.command import Ended, run

TRACE = """\
{"arrival": 100, "duration": 10, "locks": {"node/a": "exclusive"}}
{"arrival": 100, "duration": 10, "locks": {"node/a": "exclusive"}}
{"arrival": 100, "duration": 10, "locks": {"node/a": "exclusive"}, "priority": 10}
{"arrival": 100, "duration": 10, "locks": {"node/b": "exclusive"}}
"""
TABLE = """\
t.jsonl: 4 jobs, 2 slots; times in seconds
POLICY           MAKESPAN  MEAN WAIT  P95 WAIT  LONGEST  STARVATION  BLOCKED  SHARE
first come           30.0       12.5      20.0     20.0        1.00     20.0    33%
priority             30.0       10.0      20.0     20.0        1.00     10.0    20%
predictive K=30      30.0        7.5      20.0     20.0        1.00     10.0    20%
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    path.write_text(TRACE)
    return path


def simulate(root: Path, *words: object) -> Ended:
    return run("gnt-debug", "--root", root, "simulate", *words, cwd=root)


def test_a_trace_is_compared_in_a_table(trace: Path) -> None:
    assert simulate(trace.parent, "t.jsonl", "--slots", "2", "--ticks", "30") == Ended(0, TABLE, "")


def test_json_has_all_that_the_table_has(trace: Path) -> None:
    ended = simulate(trace.parent, "t.jsonl", "--slots", "2", "--ticks", "30", "--output", "json")

    value = json.loads(ended.out)
    assert (value["source"], value["jobs"], value["slots"], value["max_bypass"]) == ("t.jsonl", 4, 2, 16)
    assert value["policies"][2] == {
        "policy": "predictive K=30",
        "makespan_s": 30.0,
        "mean_wait_s": 7.5,
        "p95_wait_s": 20.0,
        "longest_wait_s": 20.0,
        "blocked_s": 10.0,
        "blocked_share": 0.2,
        "starvation": 1.0,
    }


def test_settings_of_the_installation_count(trace: Path) -> None:
    (trace.parent / "gantry.toml").write_text("[luxid]\nmax_running_jobs = 3\n[wconfd]\nfair = false\n")

    value = json.loads(simulate(trace.parent, "t.jsonl", "--output", "json").out)

    assert (value["slots"], value["max_bypass"]) == (3, None)


def test_units_that_a_trace_uses_are_given_by_option(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"arrival": 0, "duration": 10, "uses": {"licences": 2}}\n' * 2)

    without = simulate(tmp_path, "t.jsonl", "--slots", "2")
    given = simulate(tmp_path, "t.jsonl", "--slots", "2", "--resource", "licences=2")

    assert without.code == 2
    assert "give --resource licences=2 or more" in without.err
    assert given.out.splitlines()[2].split()[:3] == ["first", "come", "20.0"]


def test_a_generated_load_is_the_same_each_time(tmp_path: Path) -> None:
    words = ("--generate", "hotspot", "--jobs", "60", "--seed", "3", "--slots", "4")

    first = simulate(tmp_path, *words)

    assert first.out.startswith("hotspot, seed 3: 60 jobs, 4 slots; times in seconds\n")
    assert first == simulate(tmp_path, *words)


def test_an_export_can_be_simulated(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.queue.mkdir(parents=True)
    command = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {"node/a": "shared"}}
    op = JobOp(command, JobState.SUCCESS, exec_at=(1010, 0), end_at=(1012, 500_000))
    paths.job_file(1).write_bytes(encode_job(Job(JobId(1), (op,), (1000, 0), (1005, 0), (1012, 500_000))))
    paths.job_file(2).write_bytes(encode_job(Job(JobId(2), (JobOp(command),), (1001, 0))))

    ended = simulate(tmp_path, "--export", "out.jsonl")

    told = "1 jobs written to out.jsonl\n1 jobs left out: they have not ended, or were never executed\n"
    assert ended == Ended(0, "", told)
    line = '{"arrival":0.0,"duration":2.5,"priority":0,"locks":{"node/a":"shared"}}\n'
    assert (tmp_path / "out.jsonl").read_text() == line
    assert simulate(tmp_path, "out.jsonl").code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("none.jsonl",), 1, "error: no such file or directory 'none.jsonl'; check the path and its owner\n"),
        (("bad.jsonl",), 2, "error: bad.jsonl, line 1: expected an object, got 1\n"),
        (("t.jsonl", "--generate", "mixed"), 2, "error: give one of TRACE, --generate and --export"),
        ((), 2, "error: give one of TRACE, --generate and --export"),
    ],
)
def test_what_cannot_be_is_told(trace: Path, words: tuple[str, ...], code: int, message: str) -> None:
    (trace.parent / "bad.jsonl").write_text("1\n")

    ended = simulate(trace.parent, *words)

    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is installed")
def test_a_plot_without_matplotlib_is_refused_before_the_work(trace: Path) -> None:
    ended = simulate(trace.parent, "t.jsonl", "--plot", "waits.png")

    text = "a plot needs matplotlib, which is not installed; 'pip install matplotlib', or leave out --plot"
    assert ended == Ended(1, "", f"error: {text}\n")


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_a_plot_is_a_png(trace: Path) -> None:
    ended = simulate(trace.parent, "t.jsonl", "--plot", "waits.png")

    assert ended.code == 0
    assert (trace.parent / "waits.png").read_bytes().startswith(b"\x89PNG")
