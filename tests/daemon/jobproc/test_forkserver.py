"""The fork server: control messages, descriptors, ends of children, fresh code. DESIGN section 7."""

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.system.livelock import is_alive
from protocol.envelope import request_bytes
from protocol.forkserver import VERSION
from protocol.framing import pack
from tests.support.daemons.forkserver import Control, JobHost, read_message
from tests.support.wait import PATIENCE_S, wait_until

DUMMY: dict[str, Any] = {"OP_ID": "OP_TEST_DUMMY"}
_SLEEP_AFTER = """
import _socket, socket, time

def sendto(self, data, *rest):
    try:
        return _socket.socket.sendto(self, data, *rest)
    finally:
        if data.startswith(b"{message}"):
            time.sleep(0.5)

socket.socket.sendto = sendto
"""
_UNTIL_THE_GATE = """
import pathlib, time

root = pathlib.Path("{root}")
(root / "begun").touch()
while not (root / "gate").exists():
    time.sleep(0.01)
"""
LONG_DELAY: dict[str, Any] = {"OP_ID": "OP_TEST_DELAY", "duration": 600.0, "interruptible": True}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[JobHost]:
    """A fork server that was started as a program, and a lock daemon."""
    host = JobHost(tmp_path, "[luxid]\nkill_grace_s = 0.2\n")
    # what starts a program changes nothing
    host.prefix = ("/usr/bin/env",)
    try:
        host.start_server()
        yield host
    finally:
        host.close()


@pytest.fixture
def server(host: JobHost) -> "subprocess.Popen[bytes]":
    assert isinstance(host.server, subprocess.Popen)
    return host.server


def test_socket_is_for_its_own_user_only(host: JobHost) -> None:
    mode = host.paths.forkserver_socket.stat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_child_is_leader_of_its_session_and_group(host: JobHost) -> None:
    host.write_job(1, DUMMY)
    started = host.fork(1)

    assert os.getsid(started.pid) == os.getpgid(started.pid) == started.pid


def test_child_has_no_descriptor_of_its_parent(host: JobHost) -> None:
    """But the log, the standard streams, and the pid file, whose lock is not inherited."""
    host.write_job(1, DUMMY)
    with Control(host.paths.forkserver_socket).sock:
        started = host.fork(1)
        files = [os.readlink(path) for path in Path(f"/proc/{started.pid}/fd").iterdir() if int(path.name) > 2]

    kinds = sorted(Path(file).name if file.startswith("/") else file.partition(":")[0] for file in files)
    livelock = Path(started.livelock).name
    assert kinds == sorted(["gantry-forkserver.pid", "jobs.log", livelock, "pipe", "pipe", "socket"])


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"{", "not JSON"),
        (b"[]", "empty batch"),
        (b'[{"jsonrpc": "2.0", "method": "startJob", "params": [1], "id": 1}]', "batches are not served"),
        (b'"startJob"', "not an object"),
        (request_bytes("startJob", [1]), "the notification startJob"),
        (request_bytes("stopJob", [1]), "unknown method 'stopJob'"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_malformed_message_gets_an_error_and_hurts_nobody(host: JobHost, payload: bytes, text: str) -> None:
    host.control.send(payload)

    assert text in str(host.control.reply())
    assert host.run(1, DUMMY).state.value == "success"


@pytest.mark.parametrize(
    ("params", "text"),
    [(b"[]", "lacks job_id"), (b"[-1]", "job id"), (b"[1, 2]", "at most 1 argument"), (b"[1]", "socket pair")],
)
def test_start_that_is_malformed_is_told_in_the_log_and_hurts_nobody(host: JobHost, params: bytes, text: str) -> None:
    host.control.send(b'{"jsonrpc": "2.0", "method": "startJob", "params": %b}' % params)

    wait_until(lambda: text in host.log(), what=f"{text} is logged")
    assert host.run(1, DUMMY).state.value == "success"


def test_descriptor_that_is_no_socket_is_refused(host: JobHost) -> None:
    with open("/dev/null") as file:
        host.control.send(b'{"jsonrpc": "2.0", "method": "startJob", "params": [1]}', file.fileno())

    wait_until(lambda: "is not a socket" in host.log(), what="it is logged")


def test_it_tells_the_version_of_its_messages(host: JobHost) -> None:
    host.control.send(request_bytes("version", []))

    assert host.control.reply()["result"] == VERSION


def test_descriptors_that_no_message_wants_are_closed(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    host.control.send(request_bytes("nonsense", []))
    host.control.reply()
    before = len(os.listdir(f"/proc/{server.pid}/fd"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        host.control.send(request_bytes("nonsense", []), theirs.fileno(), theirs.fileno())
        host.control.reply()
        theirs.close()

        assert ours.recv(1) == b""

    assert len(os.listdir(f"/proc/{server.pid}/fd")) == before


def test_two_requests_in_one_write_each_get_their_own_descriptor(host: JobHost) -> None:
    for job_id, ours in enumerate([host.control.start(1), host.control.start(2)], 1):
        with ours:
            assert f"/job_{job_id:06d}_".encode() in ours.recv(4096)


def test_message_without_an_end_closes_the_connection_only(host: JobHost) -> None:
    control = Control(host.paths.forkserver_socket)
    with control.sock, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        # more than any buffer between us takes: all of it can only be sent to a reader
        for _ in range(1024):
            control.sock.sendall(b"x" * 65536)
        pytest.fail("the fork server reads on")

    assert host.run(1, DUMMY).state.value == "success"


def test_client_that_goes_away_in_the_middle_hurts_nobody(host: JobHost) -> None:
    control = Control(host.paths.forkserver_socket)
    control.sock.sendall(pack(request_bytes("version", []))[:10])
    control.sock.close()

    assert host.run(1, DUMMY).state.value == "success"


def test_job_that_has_a_process_gets_the_next_one_when_that_has_ended(host: JobHost) -> None:
    """DESIGN section 3, invariant 5: no opcode is run twice."""
    started = host.start(1, LONG_DELAY)
    with host.control.start(1) as given_up:
        given_up.close()
    with host.control.start(1) as ours:
        ours.settimeout(0.5)
        with pytest.raises(TimeoutError):
            ours.recv(1)

        os.kill(started.pid, signal.SIGKILL)

        ours.settimeout(PATIENCE_S)
        livelock = read_message(ours).decode()
        assert livelock != started.livelock
        assert is_alive(livelock)


def test_second_fork_server_is_refused_without_a_traceback(host: JobHost) -> None:
    second = host.spawn_server()
    _, errors = second.communicate()

    assert second.returncode == 1
    assert b"already running with pid" in errors
    assert b"Traceback" not in errors
    assert host.run(1, DUMMY).state.value == "success"


def test_jobs_outlive_the_fork_server(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    started = host.start(1, {**LONG_DELAY, "interruptible": True})

    server.terminate()
    assert server.wait(PATIENCE_S) == 0
    assert not host.paths.forkserver_socket.exists()
    assert is_alive(started.livelock)

    os.kill(started.pid, signal.SIGTERM)
    host.wait_dead(started.livelock)
    assert host.states(1) == ["canceled"]


def test_killed_fork_server_is_replaced_and_its_socket_too(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    server.kill()
    server.communicate()
    assert host.paths.forkserver_socket.exists()
    host.reconnect()

    host.start_server()

    assert host.run(1, DUMMY).state.value == "success"


def test_file_in_place_of_the_socket_is_refused(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    server.communicate()
    host.paths.forkserver_socket.write_text("precious")

    second = host.spawn_server()
    _, errors = second.communicate()

    assert second.returncode == 1
    assert b"is not a socket; move it away" in errors
    assert host.paths.forkserver_socket.read_text() == "precious"


def test_hup_renews_the_program_and_keeps_socket_pid_and_children(
    host: JobHost, server: "subprocess.Popen[bytes]"
) -> None:
    started = host.start(1, LONG_DELAY)

    server.send_signal(signal.SIGHUP)
    wait_until(lambda: host.log().count("forkserver.ready") == 2, what="it is ready again", state=host.log)

    assert host.control.is_closed()
    host.reconnect()
    host.control.send(request_bytes("nonsense", []))
    host.control.reply()
    assert host.run(2, DUMMY).state.value == "success"
    os.kill(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)
    assert host.states(1) == ["canceled"]
    assert server.poll() is None
    second = host.spawn_server()
    second.communicate()
    assert second.returncode == 1


def test_client_that_connects_during_the_renewal_is_served(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    for turn in range(1, 4):
        server.send_signal(signal.SIGHUP)
        wait_until(lambda turn=turn: host.log().count("code.renewed") == turn, what="it is being renewed")  # type: ignore[misc]
        host.reconnect()

        assert host.run(turn, DUMMY).state.value == "success"


def test_broken_code_does_not_replace_the_working_program(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    """The trial sees a plug-in folder that appeared after the start; the running program does not."""
    plugin = host.root / "site"
    server.terminate()
    server.communicate()
    host.reconnect()
    host.start_server(PYTHONPATH=str(plugin))
    put_broken_plugin(plugin)
    assert host.server is not None

    host.server.send_signal(signal.SIGHUP)
    wait_until(lambda: "code.not_renewed" in host.log(), what="the trial fails")

    assert host.run(1, DUMMY).state.value == "success"


def restart_slow(host: JobHost, message: str) -> "subprocess.Popen[bytes]":
    """A fork server that sleeps after this message to the service manager, as if its processor were busy."""
    assert isinstance(host.server, subprocess.Popen)
    host.server.terminate()
    host.server.communicate()
    host.reconnect()
    site = host.root / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_SLEEP_AFTER.format(message=message))
    host.start_server(PYTHONPATH=str(site))
    assert isinstance(host.server, subprocess.Popen)
    return host.server


def test_ready_fork_server_goes_on_without_descriptors(host: JobHost) -> None:
    server = restart_slow(host, "READY=1")
    limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, limits[1]))

    server.send_signal(signal.SIGHUP)

    # for want of a descriptor for the trial
    wait_until(lambda: "code.not_renewed" in host.log(), what="the failed trial to be told", state=host.log)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    assert server.poll() is None
    host.write_job(1, DUMMY)
    assert host.fork(1).pid


def test_request_to_end_is_not_lost_when_the_code_is_being_renewed(host: JobHost) -> None:
    server = restart_slow(host, "RELOADING=1")
    server.send_signal(signal.SIGHUP)
    wait_until(lambda: "code.renewed" in host.log(), what="it is being renewed", state=host.log)

    server.terminate()

    assert server.wait(PATIENCE_S) == 0
    assert not host.paths.forkserver_socket.exists()


def put_broken_plugin(folder: Path, code: str = "") -> None:
    """Args: code: runs when it is imported, before that fails."""
    info = folder / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantry.units]\nbroken = broken_units\n")
    (folder / "broken_units.py").write_text(f"{code}\nraise ImportError('broken')\n")


def test_hup_during_a_trial_that_fails_is_followed_by_another_trial(
    host: JobHost, server: "subprocess.Popen[bytes]"
) -> None:
    plugins = host.root / "plugins"
    server.terminate()
    server.communicate()
    host.start_server(PYTHONPATH=str(plugins))
    put_broken_plugin(plugins, _UNTIL_THE_GATE.format(root=host.root))
    assert host.server is not None

    host.server.send_signal(signal.SIGHUP)
    wait_until(lambda: (host.root / "begun").exists(), what="the trial has begun")
    host.server.send_signal(signal.SIGHUP)
    (host.root / "gate").touch()

    wait_until(lambda: host.log().count("code.not_renewed") == 2, what="two failed trials", state=host.log)


def test_log_is_opened_again_though_the_code_is_broken(host: JobHost, server: "subprocess.Popen[bytes]") -> None:
    settings, log = host.root / "gantry.toml", host.paths.log_file("forkserver")
    settings.write_text("nonsense")
    log.rename(log.with_name("rotated"))

    server.send_signal(signal.SIGHUP)

    wait_until(lambda: log.exists() and "code.not_renewed" in host.log(), what="the new log tells of the trial")


@pytest.mark.parametrize("fault", ["settings", "plugin"])
def test_what_would_end_the_fresh_program_ends_the_trial(
    host: JobHost, server: "subprocess.Popen[bytes]", fault: str
) -> None:
    settings, plugins = host.root / "gantry.toml", host.root / "plugins"
    if fault == "settings":
        settings.write_text("[jobproc]\nno_such_key = 1\n")
    else:
        put_broken_plugin(plugins)
        settings.write_text(f'[plugins]\nfolder = "{plugins}"\n')

    server.send_signal(signal.SIGHUP)

    wait_until(lambda: "code.not_renewed" in host.log(), what="the trial fails", state=host.log)
    assert host.run(1, DUMMY).state.value == "success"
    assert "code.renewed" not in host.log()
    settings.write_text("")
    server.send_signal(signal.SIGHUP)
    wait_until(lambda: host.log().count("forkserver.ready") == 2, what="it is ready again", state=host.log)


def test_bad_option_is_a_usage_error(host: JobHost) -> None:
    process = host.spawn_server("--no-such-option")
    _, errors = process.communicate()

    assert process.returncode == 2
    assert b"--no-such-option" in errors
