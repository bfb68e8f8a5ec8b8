"""Limits of a command, and what it used. DESIGN section 16; issue 9, section 2."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.commands.cgroups import CPU, MEMORY, ControlGroup, WantedLimits, Way, find_groups, folder_name, limit_groups
from common.commands.supervision import killed_for_memory
from common.errors import InvalidRequest
from common.opcodes.registry import parse_opcode
from tests.daemon.jobproc.test_run_command import command, error_of, output, shell
from tests.support.daemons.forkserver import JobHost

MIB = 2**20
# uses 200 MiB, and says that it could
HOG = ("python3", "-c", "data = bytearray(200 * 2**20); print(len(data))")
_ids = itertools.count(1)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobHost]:
    host = JobHost(tmp_path_factory.mktemp("h"))
    try:
        host.start_server()
        yield host
    finally:
        host.close()


@pytest.fixture(scope="module")
def bare_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobHost]:
    """One that makes no control groups."""
    host = JobHost(tmp_path_factory.mktemp("b"), '[jobproc]\ncgroups = "off"\n')
    try:
        host.start_server()
        yield host
    finally:
        host.close()


def run(host: JobHost, op: dict[str, Any]) -> int:
    job_id = next(_ids)
    host.run(job_id, op)
    return job_id


def needs(controller: str) -> None:
    """Skip where no group with this controller can be made."""
    wanted = WantedLimits(memory_bytes=64 * MIB) if controller == MEMORY else WantedLimits(cpus=1.0)
    # a folder for this process alone: others try at the same time
    run_folder = Path(f"/run/gantry-test-{os.getpid()}")
    tree = find_groups("v2", run_folder)
    own = None if tree is None else tree.make("trial.cg")
    limited = limit_groups(wanted, own, run_folder, "trial.cg")
    for group in (*limited.extra, *([] if own is None else [own])):
        group.remove()
        os.rmdir(Path(group.folder).parent)
    if controller not in limited.by_controller:
        pytest.skip(f"no control group for {controller} can be made here")


def test_result_tells_what_the_command_and_its_children_used(host: JobHost) -> None:
    burn = "python3 -c 'sum(range(3_000_000))'"
    write = f"dd if=/dev/zero of={host.root}/file bs=1M count=4 conv=fsync 2>/dev/null"
    one = run(host, shell(f"{burn}; {' '.join(HOG[:2])} '{HOG[2]}' & wait; {write}"))

    usage = host.job(one).ops[0].result["usage"]
    assert usage["memory_peak_bytes"] > 200 * MIB
    assert not usage["memory_is_at_most"]
    assert usage["cpu_user_s"] > 0
    assert usage["cpu_system_s"] > 0
    assert usage["read_bytes"] >= 0
    assert usage["written_bytes"] >= 0


def test_memory_of_a_command_smaller_than_our_own_process_is_told_as_a_bound(bare_host: JobHost) -> None:
    """The kernel counts the process before it executes its program, too, when it is a copy of ours."""
    usage = bare_host.job(run(bare_host, command("true"))).ops[0].result["usage"]

    assert (usage["memory_is_at_most"], usage["memory_of_all"]) == (True, False)


def test_usage_of_a_command_that_failed_is_told_as_well(host: JobHost) -> None:
    one = run(host, shell("exit 3"))

    end = host.job(one).ops[0].result[1][1]
    assert (end["exit_code"], end["usage"]["memory_peak_bytes"] > 0) == (3, True)


def test_niceness_and_ulimits_are_the_command_s(host: JobHost) -> None:
    limits = {"nofile": [100, 200], "cpu": [50]}
    usual = int(output(host, run(host, command("nice"))))
    one = run(host, shell("ulimit -S -n; ulimit -H -n; ulimit -t; nice", nice=7, ulimits=limits))

    assert output(host, one).decode().split() == ["100", "200", "50", str(min(usual + 7, 19))]


def test_a_limit_that_cannot_be_had_is_told(host: JobHost) -> None:
    one = run(host, command("true", ulimits={"nofile": [2**40]}))

    assert error_of(host, one).startswith("the limit 'nofile' cannot be set: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_cannot_raise_his_priority(host: JobHost) -> None:
    one = run(host, command("true", nice=-5, user="daemon"))

    assert error_of(host, one) == "user 'daemon' may not have the niceness -5: permission denied"


def test_a_command_beyond_its_memory_is_killed_and_says_so(host: JobHost) -> None:
    needs(MEMORY)

    one = run(host, command(*HOG, memory=50 * MIB))

    _, [text, end] = host.job(one).ops[0].result
    assert text == "'python3' was killed for memory: a process of it needed more than its 50 MiB"
    assert (end["killed_for"], end["oom_kills"], end["signal"]) == ("memory", 1, "SIGKILL")
    assert end["usage"]["memory_of_all"]
    assert end["usage"]["memory_peak_bytes"] <= 50 * MIB


def test_a_child_that_is_killed_for_memory_is_told_whatever_the_exit_code(host: JobHost) -> None:
    needs(MEMORY)

    one = run(host, shell(f"python3 -c '{HOG[2]}'; exit 0", memory=50 * MIB))

    result = host.job(one).ops[0].result
    # in version 2 the kernel kills the parent, too
    assert (result if isinstance(result, dict) else result[1][1])["killed_for"] == "memory"


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 2\noom_group_kill 1\n", 1),
        ("memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 1\n", 2),
        # the process that was chosen was gone when the group was killed
        ("memory.events", "low 0\noom 1\noom_kill 1\noom_group_kill 1\n", 1),
        ("memory.events", "low 0\noom 0\noom_kill 0\noom_group_kill 0\n", 0),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
    ],
)
def test_a_process_that_the_kernel_counts_twice_is_told_once(tmp_path: Path, name: str, text: str, count: int) -> None:
    (tmp_path / name).write_text(text)

    assert killed_for_memory(ControlGroup(Way.V2, str(tmp_path))) == count


def test_processors_are_limited_by_a_group(host: JobHost) -> None:
    needs(CPU)

    burn = "import time; end = time.monotonic() + 1.0\nwhile time.monotonic() < end: pass"
    one = run(host, command("python3", "-c", burn, cpus=0.2))

    result = host.job(one).ops[0].result
    # a fifth of a processor, and what runs over before it is stopped
    assert result["usage"]["cpu_user_s"] + result["usage"]["cpu_system_s"] < 0.5 * result["duration_s"]


def test_without_groups_memory_is_limited_for_each_process(bare_host: JobHost) -> None:
    one = run(bare_host, command(*HOG, memory=100 * MIB))
    two = run(bare_host, shell("ulimit -v", memory=100 * MIB))

    assert "MemoryError" in error_of(bare_host, one)
    assert int(output(bare_host, two)) == 100 * 1024
    assert "memory is limited for each process by itself" in str(bare_host.job(two).ops[0].log[0].message)


def test_without_groups_processors_cannot_be_limited_and_that_is_told(bare_host: JobHost) -> None:
    one = run(bare_host, command("true", cpus=1.0))

    assert error_of(bare_host, one).startswith("cannot enforce 'cpus': no control group for processors")


def test_no_group_is_left_behind(host: JobHost) -> None:
    needs(MEMORY)
    one = run(host, command("true", memory=50 * MIB))

    # other tests make and remove groups meanwhile
    own = folder_name(str(host.paths.run))
    left = [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith(f"/{own}/job-{one}.cg")]
    assert left == []


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"memory": 1000}, "memory must be at least 1048576 bytes"),
        ({"cpus": 0}, "cpus must be from 0.01 to 8192"),
        ({"nice": 20}, "nice must be from -20 to 19"),
        ({"ulimits": {"files": [1]}}, "there is no limit 'files'"),
        ({"ulimits": {"nofile": [5, 4]}}, "soft <= hard"),
        ({"ulimits": {"nofile": []}}, "takes a soft and a hard limit"),
    ],
)
def test_a_limit_out_of_range_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_opcode(command("true", **parameters))
