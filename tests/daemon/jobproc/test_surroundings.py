"""The surroundings of a command depend neither on the user nor on the shell that started the daemons. DESIGN 16."""

import itertools
import os
import pwd
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.commands.surroundings import LIMITS
from tests.daemon.jobproc.test_run_command import command, error_of, output, shell
from tests.support.daemons.forkserver import JobHost

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
is_ordinary = pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")


_ids = itertools.count(1)


def run(host: JobHost, op: dict[str, Any]) -> int:
    """Run a job of one opcode to its end; its id."""
    job_id = next(_ids)
    host.run(job_id, op)
    return job_id


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobHost]:
    host = JobHost(tmp_path_factory.mktemp("h"))
    try:
        host.start_server()
        yield host
    finally:
        host.close()


@pytest.fixture(scope="module")
def odd_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobHost]:
    """A fork server that was started from a strange shell."""
    host = JobHost(tmp_path_factory.mktemp("odd"), '[jobproc]\ncommand_path = "/bin:/usr/bin:/opt/x"\n')
    script = 'ulimit -S -n 512; ulimit -S -c 1; umask 0; trap "" QUIT HUP; exec nice -n 0 "$@"'
    host.prefix = ("/bin/sh", "-c", script, "sh")
    try:
        host.start_server(EDITOR="ed", VIRTUAL_ENV="/v", HOME="/nowhere", LANG="xx", PATH="/v/bin:/bin:/usr/bin")
        yield host
    finally:
        host.close()


def test_environment_is_the_defined_one_and_nothing_else(odd_host: JobHost) -> None:
    seven = run(odd_host, command("env", env={"COLOUR": "red"}))

    user = pwd.getpwuid(os.geteuid())
    assert dict(line.split("=", 1) for line in output(odd_host, seven).decode().splitlines()) == {
        "PATH": "/bin:/usr/bin:/opt/x",
        "LANG": "C.UTF-8",
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
        "GANTRY_ROOT": str(odd_host.root),
        "GANTRY_DATA_DIR": str(odd_host.paths.data),
        "GANTRY_RUN_DIR": str(odd_host.paths.run),
        "GANTRY_LOG_DIR": str(odd_host.paths.log),
        "GANTRY_JOB_ID": str(seven),
        "GANTRY_OPCODE_INDEX": "0",
        "COLOUR": "red",
    }


def test_umask_and_open_files_and_cores_are_the_defined_ones(odd_host: JobHost) -> None:
    one = run(odd_host, shell("umask; ulimit -S -n; ulimit -S -c"))

    assert output(odd_host, one).decode().split() == ["0022", "1024", "0"]


def test_umask_can_be_another_one(tmp_path: Path) -> None:
    host = JobHost(tmp_path, "[jobproc]\ncommand_umask = 0o077\n")
    try:
        host.start_server()
        one = run(host, shell("umask"))
        assert output(host, one).decode().split() == ["0077"]
    finally:
        host.close()


def test_no_signal_is_ignored_or_blocked(odd_host: JobHost) -> None:
    one = run(odd_host, command("grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"))

    masks = [int(line.split()[1], 16) for line in output(odd_host, one).decode().splitlines()]
    # 32 and 33 are the C library's own, which no program may set
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0]


def test_soft_limits_are_the_table_s_as_far_as_the_hard_ones_allow(host: JobHost) -> None:
    one = run(host, command("cat", "/proc/self/limits"))

    lines = output(host, one).decode().splitlines()
    told = {line[:25].strip(): line[26:].split()[:2] for line in lines[1:]}
    soft, hard = (value if value == "unlimited" else int(value) for value in told["Max stack size"])
    most = resource.RLIM_INFINITY if hard == "unlimited" else int(hard)
    wanted = LIMITS[resource.RLIMIT_STACK][0]
    assert soft == (wanted if most == resource.RLIM_INFINITY else min(wanted, most))


@is_root
def test_environment_of_another_user_is_his(host: JobHost) -> None:
    one = run(host, shell("id -un; echo $HOME $USER $LOGNAME $SHELL", user="daemon"))

    user = pwd.getpwnam("daemon")
    assert output(host, one).decode().split() == ["daemon", user.pw_dir, "daemon", "daemon", user.pw_shell]


def test_a_text_is_read_from_standard_input(host: JobHost) -> None:
    text = "größer\n" * 50_000
    one = run(host, command("wc", "-c", stdin_text=text))

    assert int(output(host, one)) == len(text.encode())


def test_a_file_is_read_from_standard_input(host: JobHost) -> None:
    (host.root / "in").write_text("from a file")
    one = run(host, command("cat", stdin_path=str(host.root / "in")))

    assert output(host, one) == b"from a file"


def test_input_that_cannot_be_read_is_told(host: JobHost) -> None:
    fifo, missing = host.root / "fifo", host.root / "missing"
    os.mkfifo(fifo)
    one = run(host, command("cat", stdin_path=str(fifo)))
    two = run(host, command("cat", stdin_path=str(missing)))

    assert error_of(host, one).endswith(f"cannot read '{fifo}' for standard input: it is not a regular file")
    assert error_of(host, two).endswith(f"cannot read '{missing}' for standard input: no such file or directory")


@is_root
def test_input_is_opened_with_the_rights_of_the_job_s_user(host: JobHost) -> None:
    one = run(host, command("cat", stdin_path="/etc/shadow", user="daemon"))

    assert output(host, one) == b""
    assert error_of(host, one) == "user 'daemon' cannot read '/etc/shadow' for standard input: permission denied"


@is_root
def test_a_folder_that_the_job_s_user_cannot_enter_is_told(host: JobHost) -> None:
    closed = host.root / "closed"
    closed.mkdir(mode=0o700)
    one = run(host, command("pwd", cwd=str(closed), user="daemon"))
    two = run(host, command("pwd", cwd="/no/such", user="daemon"))

    assert error_of(host, one).startswith(f"user 'daemon' cannot enter cwd '{closed}': permission denied; ")
    assert error_of(host, two) == "cwd '/no/such' does not exist"


@is_ordinary
def test_a_folder_that_our_own_user_cannot_enter_is_told(host: JobHost) -> None:
    closed = host.root / "closed"
    closed.mkdir(mode=0o600)
    one = run(host, command("pwd", cwd=str(closed)))

    assert f"cannot enter cwd '{closed}': permission denied; " in error_of(host, one)


def test_standard_error_is_kept_apart_on_demand(host: JobHost) -> None:
    one = run(host, shell("echo out; echo bad >&2; echo more", stderr_apart=True))

    result = host.job(one).ops[0].result
    assert (result["output_bytes"], result["tail"]) == (9, ["out", "more"])
    assert (result["error_bytes"], result["error_tail"]) == (4, ["bad"])
    assert (host.paths.output / f"job-{one}.{0:020d}").read_bytes() == b"out\nmore\n"
    assert (host.paths.output / f"job-{one}.err.{0:020d}").read_bytes() == b"bad\n"


def test_a_failure_tells_the_last_line_of_a_separate_standard_error(host: JobHost) -> None:
    one = run(host, shell("echo bad >&2; echo out; exit 1", stderr_apart=True))

    assert error_of(host, one).endswith("; last output: bad")


def program(host: JobHost, content: bytes) -> str:
    path = host.root / f"program{next(_ids)}"
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"echo hello\n", "it is a script without a '#!' line; begin it with '#!/bin/sh'"),
        (b"", "it is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(60), "it is made for another kind of machine"),
        (b"#!/no/such/interpreter\n", "the program that its '#!' line names does not exist"),
    ],
)
def test_a_program_that_cannot_be_executed_has_its_own_words(host: JobHost, content: bytes, words: str) -> None:
    path = program(host, content)
    one = run(host, command(path))

    assert error_of(host, one).startswith(f"'{path}' cannot be started: {words}")


def test_a_folder_is_no_program(host: JobHost) -> None:
    one = run(host, command(str(host.root)))

    assert error_of(host, one) == f"'{host.root}' is a folder; name a program"


@is_root
def test_a_command_with_a_prelude_still_holds_its_job_s_locks(host: JobHost) -> None:
    """The child between fork and exec must not let go of the livelock's descriptor."""
    one = run(host, shell("ls -l /proc/self/fd | grep -c livelocks || true", user="daemon", cwd="/"))
    two = run(host, shell("ls -l /proc/self/fd | grep -c livelocks || true", cwd="/"))

    assert output(host, one) == output(host, two)
