"""OP_RUN_COMMAND: any program as a job. DESIGN sections 5 and 7."""

import os
import pwd
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.queue.jobs import JobState
from common.system.livelock import is_alive
from common.system.processes import Process, descendants, is_living
from tests.support.daemons.forkserver import JobHost, Started
from tests.support.wait import wait_until


def command(*argv: str, **parameters: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_RUN_COMMAND", "argv": list(argv), **parameters}


def shell(script: str, **parameters: Any) -> dict[str, Any]:
    return command("/bin/sh", "-c", script, **parameters)


def output(host: JobHost, job_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in pieces(host, job_id))


def pieces(host: JobHost, job_id: int) -> list[Path]:
    return sorted(host.paths.output.glob(f"job-{job_id}.0*"))


def error_of(host: JobHost, job_id: int) -> str:
    name, args = host.job(job_id).ops[0].result
    assert name in ("OpExecError", "OpPrereqError")
    return str(args[0])


def wait_output(host: JobHost, job_id: int, text: bytes) -> None:
    wait_until(lambda: text in output(host, job_id), what=f"the output has {text!r}")


def processes_of(started: Started) -> frozenset[Process]:
    """The supervisor and the program with all that it started."""
    return descendants(started.pid)


def name_of(process: Process) -> str:
    """Of the program that it runs; "": it has ended."""
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_result_tells_how_the_program_ended_and_its_last_lines(host: JobHost) -> None:
    job = host.run(1, shell("echo one; echo two >&2; printf three"))

    result = job.ops[0].result
    assert result.pop("duration_s") > 0
    assert result.pop("usage")["memory_peak_bytes"] > 0
    assert result == {
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "output_bytes": 13,
        "tail": ["one", "two", "three"],
    }
    assert output(host, 1) == b"one\ntwo\nthree"


def test_words_are_not_given_to_a_shell(host: JobHost) -> None:
    host.run(1, command("echo", "$HOME;", "a  b"))

    assert output(host, 1) == b"$HOME; a  b\n"


def test_words_are_joined_for_a_shell_on_demand(host: JobHost) -> None:
    host.run(1, command("echo", "$((1 + 1))", "|", "cat", shell=True))

    assert output(host, 1) == b"2\n"


def test_environment_has_the_job_and_what_was_asked(host: JobHost) -> None:
    script = "echo $GANTRY_JOB_ID $GANTRY_OPCODE_INDEX $GANTRY_ROOT $GANTRY_DATA_DIR $COLOUR"
    host.run(5, shell("true"), shell(script, env={"COLOUR": "red"}))

    assert output(host, 5).decode().split() == ["5", "1", str(host.root), str(host.paths.data), "red"]


def test_working_folder_is_the_root_or_what_was_asked(host: JobHost) -> None:
    host.run(1, command("pwd"), command("pwd", cwd=str(host.root)))

    assert output(host, 1).decode().split() == ["/", str(host.root)]


@pytest.mark.parametrize(
    ("cwd", "text"),
    [
        ("/no/such/folder", "does not exist"),
        ("/dev/null", "is not a folder"),
    ],
)
def test_bad_working_folder_is_told(host: JobHost, cwd: str, text: str) -> None:
    host.run(1, command("pwd", cwd=cwd))

    assert cwd in error_of(host, 1)
    assert text in error_of(host, 1)


def test_input_is_empty(host: JobHost) -> None:
    assert host.run(1, command("cat")).ops[0].result["output_bytes"] == 0


def test_unexpected_exit_code_fails_with_code_and_last_line(host: JobHost) -> None:
    host.run(1, shell("echo no disk; echo; exit 3"))

    assert error_of(host, 1) == "'/bin/sh' ended with exit code 3 (expected 0); last output: no disk"


def test_expected_exit_codes_are_a_success(host: JobHost) -> None:
    job = host.run(1, shell("exit 3", exit_codes=[0, 3]), shell("exit 4", exit_codes=[3]))

    assert host.states(1) == ["success", "error"]
    assert job.ops[0].result["exit_code"] == 3
    name, [text, end] = job.ops[1].result
    assert (name, text) == ("OpExecError", "'/bin/sh' ended with exit code 4 (expected 3)")
    assert (end["exit_code"], end["signal"], end["timed_out"]) == (4, None, False)


def test_end_by_a_signal_fails_and_names_it(host: JobHost) -> None:
    host.run(1, shell("kill -USR1 $$"))

    assert error_of(host, 1) == "'/bin/sh' was ended by SIGUSR1 (expected exit code 0)"


def test_missing_program_is_told(host: JobHost) -> None:
    host.run(1, command("no-such-program"))
    host.run(2, command("/no/such/program"))

    assert error_of(host, 1).startswith("there is no program 'no-such-program' in the PATH")
    assert error_of(host, 2).startswith("there is no program '/no/such/program';")


def test_program_without_execute_permission_is_told(host: JobHost) -> None:
    program = host.root / "program"
    program.write_text("#!/bin/sh\n")

    host.run(1, command(str(program)))

    assert "may not be executed: permission denied" in error_of(host, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_program_runs_as_the_user_asked_for(host: JobHost) -> None:
    host.run(1, shell("id -un; id -Gn; echo $HOME $USER", user="daemon"))

    user = pwd.getpwnam("daemon")
    assert output(host, 1).decode().split() == ["daemon", "daemon", user.pw_dir, "daemon"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_program_of_another_user_can_open_its_output_again_by_name(host: JobHost) -> None:
    host.run(1, shell("echo one > /dev/stdout; echo two > /dev/stderr", user="daemon"))

    assert output(host, 1) == b"one\ntwo\n"


def test_unknown_user_is_told(host: JobHost) -> None:
    host.run(1, command("id", user="nobody-at-all"))

    assert "there is no user 'nobody-at-all'" in error_of(host, 1)


def test_hundred_thousand_lines_are_kept_up_to_the_limit(host: JobHost) -> None:
    job = host.run(1, command("seq", "-f", "line %.0f", "100000"))

    whole = "".join(f"line {number}\n" for number in range(1, 100001)).encode()
    result = job.ops[0].result
    assert result["output_bytes"] == len(whole)
    assert result["tail"] == [f"line {number}" for number in range(99981, 100001)]
    names = [path.name for path in pieces(host, 1)]
    starts = [int(name.removeprefix("job-1.")) for name in names]
    assert all(len(name) == len("job-1.") + 20 for name in names)
    assert starts == [900_000, 1_000_000]
    assert output(host, 1) == whole[900_000:]
    assert job.ops[0].log == ()


def test_output_of_later_opcodes_and_processes_goes_on_at_the_end(host: JobHost) -> None:
    host.run(1, shell("echo a"), shell("echo b"), shell("echo c", depends=[[9, []]]))
    host.wait_exit(host.go(host.fork(1)).pid)

    assert output(host, 1) == b"a\nb\nc\n"


def test_output_is_there_while_the_program_runs(host: JobHost) -> None:
    started = host.start(1, shell("echo begun; sleep 600"))

    wait_output(host, 1, b"begun")

    assert host.job(1).state is JobState.RUNNING
    os.killpg(started.pid, signal.SIGTERM)


def test_timeout_stops_the_grandchildren_too(host: JobHost) -> None:
    pids = host.root / "pids"
    # the time-out is long enough for all of them to be there
    script = f"sleep 600 & one=$!; setsid sleep 600 & echo $$ $one $! > {pids}; echo begun; wait"
    started = host.start(1, shell(script, timeout=6))

    host.wait_exit(started.pid)

    assert error_of(host, 1) == "'/bin/sh' did not end within 6 s and was stopped; last output: begun"
    assert len(pids.read_text().split()) == 3
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())
    assert not Path(started.livelock).exists()


def test_program_that_ignores_term_is_killed_after_the_grace_time(host: JobHost) -> None:
    host.run(1, shell("trap '' TERM; echo begun; while :; do sleep 0.05; done", timeout=0.3))

    assert "did not end within 0.3 s" in error_of(host, 1)


@pytest.fixture
def lenient(tmp_path: Path) -> Iterator[JobHost]:
    """A fork server whose job processes leave a program all the time to end."""
    host = JobHost(tmp_path, "[luxid]\nkill_grace_s = 60.0\n")
    try:
        host.start_server()
        yield host
    finally:
        host.close()


def test_program_may_tidy_up_after_a_timeout(lenient: JobHost) -> None:
    host = lenient
    host.run(1, shell("trap 'echo tidied; exit 0' TERM; echo begun; while :; do sleep 0.02; done", timeout=6))

    assert error_of(host, 1).endswith("was stopped; last output: tidied")


def test_following_opcode_runs_after_a_program_that_was_in_time(host: JobHost) -> None:
    host.run(1, shell("true", timeout=30), shell("true"))

    assert host.states(1) == ["success", "success"]


def test_cancel_does_not_interrupt_a_program(host: JobHost) -> None:
    go = host.root / "go"
    os.mkfifo(go)
    started = host.start(1, shell(f"echo begun; cat {go}"), shell("true"))
    wait_output(host, 1, b"begun")

    os.kill(started.pid, signal.SIGTERM)
    go.write_text("done\n")
    host.wait_exit(started.pid)

    assert host.states(1) == ["success", "canceled"]
    assert output(host, 1) == b"begun\ndone\n"


# of a shell that ends before its child the job would keep the locks, for as long as the child takes to die
@pytest.mark.parametrize("script", ["echo begun; exec sleep 600", "trap 'exit 143' TERM; echo begun; sleep 600"])
def test_kill_of_the_group_ends_the_program_and_the_job_as_canceled(host: JobHost, script: str) -> None:
    started = host.start(1, shell(script), shell("true"))
    # a shell's child that is not yet another program has the shell's trap, and would not end
    wait_until(lambda: "sleep" in map(name_of, processes_of(started)), what="it sleeps")
    pids = processes_of(started)

    os.killpg(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled", "canceled"]
    wait_until(lambda: not any(map(is_living, pids)), what="the program has ended")
    assert host.wconfd.owners() == []


def test_sigkill_of_the_group_leaves_nothing(host: JobHost) -> None:
    started = host.start(1, shell("trap '' TERM; echo begun; sleep 600"))
    wait_output(host, 1, b"begun")
    pids = processes_of(started)

    os.killpg(started.pid, signal.SIGKILL)
    host.wait_exit(started.pid)

    wait_until(lambda: not any(map(is_living, pids)), what="the program has ended")
    host.wait_dead(started.livelock)


def test_locks_outlive_a_killed_job_process_as_long_as_its_program(host: JobHost) -> None:
    """DESIGN section 5: locks stay held while anything the job started still runs."""
    started = host.start(1, shell("echo begun; exec sleep 600"))
    wait_output(host, 1, b"begun")
    processes = processes_of(started)
    wait_until(lambda: "sleep" in map(name_of, processes), what="the shell has become the program")

    os.kill(started.pid, signal.SIGKILL)
    host.wait_exit(started.pid)
    assert len(processes) == 2
    assert all(map(is_living, processes))
    assert is_alive(started.livelock)

    for process in processes:
        if name_of(process) == "sleep":
            os.kill(process.pid, signal.SIGKILL)
    host.wait_dead(started.livelock)


def test_background_process_with_kept_locks_does_not_hang_the_job_but_keeps_its_locks(host: JobHost) -> None:
    pid_file = host.root / "pid"
    started = host.start(1, shell(f"sleep 600 & echo $! > {pid_file}", keep_locks=True))

    host.wait_exit(started.pid)

    assert host.states(1) == ["success"]
    assert host.wconfd.owners() == [1]
    assert is_alive(started.livelock)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    host.wait_dead(started.livelock)
    assert "job.left_processes" in host.log()


def test_following_opcode_waits_for_a_background_process_and_its_locks(host: JobHost) -> None:
    go = host.root / "go"
    os.mkfifo(go)
    started = host.start(1, shell(f"cat {go} & true", keep_locks=True), shell("echo second"))
    wait_until(lambda: host.job(1).ops[1].log, what="the second opcode says what it waits for")
    assert host.states(1) == ["success", "queued"]
    assert host.wconfd.owners() == [1]

    go.write_text("")
    host.wait_exit(started.pid)

    assert host.states(1) == ["success", "success"]
    assert host.wconfd.owners() == []
    assert not Path(started.livelock).exists()


def test_cancel_while_a_background_process_is_waited_for(host: JobHost) -> None:
    pid_file = host.root / "pid"
    started = host.start(1, shell(f"sleep 600 & echo $! > {pid_file}", keep_locks=True), shell("true"))
    wait_until(lambda: host.job(1).ops[1].log, what="the second opcode says what it waits for")

    os.kill(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)

    assert host.states(1) == ["success", "canceled"]
    assert is_alive(started.livelock)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    host.wait_dead(started.livelock)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 256)
    with open(sys.argv[1], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
"""


def test_daemon_that_closes_what_it_inherited_is_ended_with_its_command(host: JobHost) -> None:
    pid_file = host.root / "pid"

    host.run(1, command(sys.executable, "-c", DAEMON, str(pid_file)), shell("echo second"))

    assert not is_running(int(pid_file.read_text()))
    assert host.states(1) == ["success", "success"]
    assert host.wconfd.owners() == []


def test_detached_daemon_runs_on_and_keeps_no_locks(host: JobHost) -> None:
    pid_file = host.root / "pid"

    started = host.start(1, command(sys.executable, "-c", DAEMON, str(pid_file), detach=True), shell("echo second"))
    host.wait_exit(started.pid)

    pid = int(pid_file.read_text())
    assert is_running(pid)
    assert host.states(1) == ["success", "success"]
    assert host.wconfd.owners() == []
    assert not Path(started.livelock).exists()
    os.kill(pid, signal.SIGKILL)


def test_daemon_that_closes_what_it_inherited_keeps_the_locks_if_that_is_wanted(host: JobHost) -> None:
    pid_file = host.root / "pid"
    started = host.start(1, command(sys.executable, "-c", DAEMON, str(pid_file), keep_locks=True))

    host.wait_exit(started.pid)

    assert host.states(1) == ["success"]
    assert host.wconfd.owners() == [1]
    assert is_alive(started.livelock)
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    host.wait_dead(started.livelock)


def test_full_disk_for_the_output_does_not_fail_the_program(host: JobHost) -> None:
    host.paths.output.rmdir()

    job = host.run(1, shell("echo one"))

    assert job.ops[0].result["tail"] == ["one"]
    assert job.ops[0].result["output_lost"] is True
    assert "output.lost" in host.log()


def test_program_inherits_no_descriptor_of_ours(host: JobHost) -> None:
    host.run(1, command("readlink", "/proc/self/fd/0"), command("ls", "-l", "/proc/self/fd"))

    text = output(host, 1).decode().splitlines()
    assert text[0] == "/dev/null"
    found = [line.split()[-3:] for line in text[1:] if " -> " in line]
    # without the folder that `ls` itself reads
    assert [target for fd, _, target in found if int(fd) > 2 and not target.startswith("/proc/")] == []
