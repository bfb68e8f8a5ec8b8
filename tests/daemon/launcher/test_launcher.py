"""The launcher as a real process of root, called by an ordinary user (DESIGN sections 5, 7 and 16)."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from common.commands.cgroups import find_groups
from common.commands.execution import Prelude
from common.commands.localcommand import CommandPlace, LocalCommand
from common.commands.spec import CommandSpec, Leave
from common.errors import GantryError
from common.paths import Paths
from common.settings import Settings
from common.system.livelock import Livelock, is_alive
from common.system.processes import kill_left_jobs
from common.system.signals import ProcessSignals
from protocol.envelope import request_bytes
from protocol.framing import pack
from protocol.launched import End, find_killer, packed, running_commands
from protocol.launcher import LaunchCommand, LaunchedCommand, find_launcher
from tests.support.wait import PATIENCE_S, wait_until

CHECKOUT: Final = Path(__file__).resolve().parents[3]
# the user of the daemons, a submitter, and one whom the rules do not name
NOBODY, DAEMON, GAMES = 65534, 1, 5
RULES: Final = 'callers = ["nobody"]\n[run_as]\nroot = ["self"]\ndaemon = ["self"]\n'

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as other users"),
]


class Host:
    """A launcher with a folder of its own, and a folder of the daemons' user beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = Paths.under_root(folder)
        for path in (self.paths.data, self.paths.run, self.paths.log, self.paths.livelocks):
            path.mkdir(parents=True)
            os.chown(path, NOBODY, NOBODY)
        self.rules = folder / "launcher.toml"
        self.rules.write_text(RULES)
        self.socket = self.paths.launcher_socket
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the launcher; return when it is ready."""
        ready = self.folder / "ready"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(str(ready))
            sock.settimeout(PATIENCE_S)
            command = [sys.executable, "-P", "-m", "daemons.launcher.main"]
            with (self.folder / "launcher.log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*command, "--folder", str(self.socket.parent), "--rules", str(self.rules)],
                    env={**os.environ, "PYTHONPATH": str(CHECKOUT), "NOTIFY_SOCKET": str(ready)},
                    stderr=log,
                )
            assert b"READY=1" in sock.recv(4096), self.log
        ready.unlink()

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)
            self.process = None

    def close(self) -> None:
        for pid in self.supervisors():
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self.supervisors(), what="the end of the commands", timeout_s=PATIENCE_S)
        self.stop()

    @property
    def log(self) -> str:
        return (self.folder / "launcher.log").read_text()

    def supervisors(self) -> list[int]:
        commands = self.socket.parent / "commands"
        return [int(path.name) for path in commands.iterdir()] if commands.exists() else []

    def run(self, **spec: Any) -> dict[str, Any]:
        """What comes of a command that the daemons' user runs here; in a process of that user."""
        return _result(self.begin(**spec))

    def begin(self, **spec: Any) -> tuple[int, int]:
        """Begin it; return the pid of the process that plays a job process, and a pipe with the outcome."""
        return _as_user(NOBODY, lambda: self._run(CommandSpec(**spec)))

    def _run(self, spec: CommandSpec) -> object:
        signals = ProcessSignals()
        signals.install()
        signals.is_kill = lambda: True
        output = b""

        def take(data: bytes) -> None:
            nonlocal output
            output += data

        place = CommandPlace(
            settings=Settings(self.paths),
            signals=signals,
            livelock=Livelock.create(self.paths.livelocks, "job_1"),
            launcher=find_launcher(self.socket),
            groups=None,
            group_name="job-1.cg",
            job_id=1,
            title="gantry-job 1 supervisor",
        )
        command = LocalCommand(spec, place)
        command.check()
        outcome = command.run(take)
        return {
            "output": output.decode(),
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "not_begun": outcome.not_begun,
            "timed_out": outcome.timed_out,
            "was_killed": outcome.was_killed,
            "lost": outcome.supervisor_lost,
            "usage": outcome.usage,
        }


def _as_user(uid: int, work: Callable[[], object]) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writer, json.dumps(work()).encode())
        except GantryError as error:
            os.write(writer, json.dumps({"refused": error.message}).encode())
        except BaseException as error:
            os.write(writer, json.dumps({"crashed": repr(error)}).encode())
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader


def _result(begun: tuple[int, int]) -> dict[str, Any]:
    pid, reader = begun
    with open(reader, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    found: dict[str, Any] = json.loads(text)
    assert "crashed" not in found, found
    return found


@pytest.fixture
def host() -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="gantry-launcher-", dir="/tmp"))
    if find_groups("auto", folder) is None:
        folder.rmdir()
        pytest.skip("this machine lets nobody make control groups, which the launcher needs")
    folder.chmod(0o755)
    host = Host(folder)
    try:
        host.start()
        yield host
    finally:
        host.close()
        shutil.rmtree(folder)


def pids_of(command: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", f"^{command}$"], capture_output=True, text=True, check=False).stdout
    return list(map(int, found.split()))


def begun(host: Host, command: str) -> None:
    wait_until(lambda: pids_of(command), what=command, timeout_s=PATIENCE_S, state=lambda: host.log)


def test_a_command_runs_as_the_submitter_with_his_groups_and_none_of_ours(host: Host) -> None:
    ended = host.run(argv=("sh", "-c", "id; echo fds: $(ls /proc/self/fd)"), user="daemon", submitter="daemon")

    identity, fds = ended["output"].splitlines()
    assert identity == "uid=1(daemon) gid=1(daemon) groups=1(daemon)"
    # the fourth is the folder that `ls` lists
    assert fds == "fds: 0 1 2 3"
    assert ended["exit_code"] == 0
    assert ended["usage"]["memory_peak_bytes"] > 0


def test_a_command_of_root_runs_as_root_with_its_folder_input_and_environment(host: Host) -> None:
    said = host.run(
        argv=("sh", "-c", "id -u; pwd; cat; echo $NAME $HOME; umask; exit 3"),
        user="root",
        submitter="root",
        cwd="/root",
        stdin_text="given\n",
        env={"NAME": "x"},
    )

    assert said["output"].split() == ["0", "/root", "given", "x", "/root", "0022"]
    assert said["exit_code"] == 3


@pytest.mark.parametrize(
    ("submitter", "user"), [("games", "games"), ("daemon", "root"), ("daemon", "games"), ("root", "daemon")]
)
def test_what_the_rules_do_not_list_is_refused(host: Host, submitter: str, user: str) -> None:
    said = host.run(argv=("touch", str(host.folder / "made")), user=user, submitter=submitter)

    assert f"jobs of '{submitter}' may not run as '{user}' on this machine" in said["not_begun"]
    assert str(host.rules) in said["not_begun"]
    assert not (host.folder / "made").exists()
    assert host.supervisors() == []


def test_a_job_whose_owner_has_no_login_is_not_roots(host: Host) -> None:
    said = host.run(argv=("id",), user="root", submitter="")

    assert said["not_begun"] == "there is no user '' on this machine"


@pytest.mark.parametrize("uid", [DAEMON, GAMES, 0])
def test_only_the_daemons_user_is_served_whoever_can_open_the_socket(host: Host, uid: int) -> None:
    def ask() -> object:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(host.socket))
            sock.sendall(pack(request_bytes("endCommands", [0, 0])))
            return {"refused": json.loads(sock.recv(4096).rstrip(b"\x03"))["result"][1][0]}

    kept_out = uid and os.stat(host.socket).st_mode & 0o777 == 0o600
    host.socket.chmod(0o666)

    said = _result(_as_user(uid, ask))

    assert said["refused"].startswith(f"user {uid} may not call the launcher")
    assert kept_out or uid == 0


def test_rules_of_another_user_and_rules_behind_a_link_are_not_read(host: Host) -> None:
    mine = host.paths.data / "mine"
    mine.write_text(RULES)
    os.chown(mine, NOBODY, NOBODY)
    host.rules.unlink()
    host.rules.symlink_to(mine)
    linked = host.run(argv=("id",), user="root", submitter="root")
    host.rules.unlink()
    missing = host.run(argv=("id",), user="root", submitter="root")
    host.rules.write_text("[run_as]\nroot = 'self'\n")
    wrong = host.run(argv=("id",), user="root", submitter="root")

    assert "is not safe to use" in linked["not_begun"]
    assert "the rules of the launcher cannot be read" in missing["not_begun"]
    assert "run_as" in wrong["not_begun"]


def test_input_behind_a_planted_link_is_opened_with_the_rights_of_the_jobs_user(host: Host) -> None:
    secret = host.folder / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    link = host.paths.data / "input"
    link.symlink_to(secret)

    said = host.run(argv=("cat",), user="daemon", submitter="daemon", stdin_path=str(link))

    assert "permission denied" in said["not_begun"]
    assert said["output"] == ""


def test_a_command_can_open_its_output_again_by_name(host: Host) -> None:
    script = "echo one > /dev/stdout; echo two > /dev/stderr"

    said = host.run(argv=("sh", "-c", script), user="daemon", submitter="daemon")

    assert (said["output"], said["exit_code"]) == ("one\ntwo\n", 0)


def test_each_command_has_a_session_and_a_keyring_of_its_own(host: Host) -> None:
    """Whoever has a session keyring may read the keys in it, whosever they are."""
    code = "import ctypes, os; print(os.getsid(0), ctypes.CDLL(None).syscall({}, 0, -3, 0))"
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine, -1)
    assert host.process is not None

    def run() -> tuple[int, int]:
        said = host.run(argv=("python3", "-c", code.format(number)), user="daemon", submitter="daemon")
        session, keyring = map(int, said["output"].split())
        return session, keyring

    (one, first), (two, second) = run(), run()

    assert len({one, two, os.getsid(host.process.pid)}) == 3
    # a machine whose containers have no keys has nothing to keep apart
    assert first != second or first == -1


def test_a_supervisor_of_root_writes_into_no_file_of_its_caller(host: Host) -> None:
    """Some files of the kernel look at the rights of the writer, not of the one who has opened them."""
    place = host.paths.data / "reports"
    place.touch()
    os.chown(place, NOBODY, NOBODY)

    def ask() -> object:
        prelude = Prelude()
        livelock = Livelock.create(host.paths.livelocks, "job_1")
        command = LaunchedCommand(
            argv=("true",),
            env={"PATH": "/bin"},
            cwd=None,
            stdin_path=None,
            limits={},
            niceness=0,
            umask=0o022,
            job_id=1,
            title="",
            leave=Leave.END,
            timeout_s=None,
            grace_s=1.0,
            group_name="job-1.cg",
            memory_bytes=None,
            cpus=None,
            has_stdin=False,
            has_errors=False,
        )
        with socket.socket(socket.AF_UNIX) as sock, place.open("ab") as file:
            sock.connect(str(host.socket))
            fds = [file.fileno(), livelock.fd, *prelude.pipe, prelude.pipe[1]]
            socket.send_fds(sock, [packed(LaunchCommand("daemon", "daemon", command))], fds)
            reply = sock.recv(4096)
        return {"reply": reply.decode()}

    said = _result(_as_user(NOBODY, ask))["reply"]

    assert "must be pipes" in said
    assert place.read_bytes() == b""


def test_a_program_that_is_not_there_is_told_as_without_the_launcher(host: Host) -> None:
    said = host.run(argv=("no-such-program",), user="daemon", submitter="daemon")

    assert "no-such-program" in said["not_begun"]
    assert host.supervisors() == []


def test_a_time_out_ends_the_command(host: Host) -> None:
    said = host.run(argv=("sleep", "4801"), user="daemon", submitter="daemon", timeout=0.3, grace_s=1.0)

    assert (said["timed_out"], said["signal"]) == (True, "SIGTERM")
    assert pids_of("sleep 4801") == []


def test_a_stop_ends_all_that_the_command_has_started_also_what_ignores_sigterm(host: Host) -> None:
    script = "trap '' TERM; (setsid sleep 4802 &) ; sleep 4803"
    running = host.begin(argv=("sh", "-c", script), user="daemon", submitter="daemon", grace_s=0.3)
    begun(host, "sleep 4802")

    os.kill(running[0], signal.SIGTERM)

    assert _result(running)["was_killed"]
    assert pids_of("sleep 480[23]") == []
    assert host.supervisors() == []


def test_the_livelock_stays_held_without_the_job_process_until_the_launcher_is_asked_to_end_the_command(
    host: Host,
) -> None:
    pid, reader = host.begin(argv=("sleep", "4804"), user="daemon", submitter="daemon", grace_s=0.3)
    begun(host, "sleep 4804")
    (livelock,) = map(str, host.paths.livelocks.glob("job_1_*"))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    # a launcher that was restarted meanwhile finds it
    host.stop(signal.SIGKILL)
    host.start()
    (supervisor,) = host.supervisors()

    def ask(how: End) -> list[int]:
        def work() -> object:
            return [[each.pid, *each.pids] for each in running_commands(host.socket, livelock, how)]

        found: Any = _result(_as_user(NOBODY, work))
        return list(found[0]) if found else []

    assert is_alive(livelock)
    assert ask(End.NO) == [supervisor, *pids_of("sleep 4804")]
    assert ask(End.ASK) != []
    wait_until(lambda: not is_alive(livelock), what="the end of the command", timeout_s=PATIENCE_S)
    assert pids_of("sleep 4804") == []
    assert ask(End.KILL) == []


def test_what_a_master_leaves_is_ended_also_where_it_runs_as_another_user(host: Host) -> None:
    """DESIGN section 14: when a mastership runs out, nothing that its jobs have started goes on."""
    pid, reader = host.begin(argv=("sleep", "4807"), user="root", submitter="root")
    begun(host, "sleep 4807")

    def end() -> object:
        rounds = 0
        while kill_left_jobs(host.paths.livelocks, find_killer(host.socket)):
            rounds += 1
            time.sleep(0.05)
        return {"rounds": rounds}

    assert _result(_as_user(NOBODY, end))["rounds"] > 0
    assert pids_of("sleep 4807") == []
    os.waitpid(pid, 0)
    os.close(reader)


def test_a_launcher_that_does_not_answer_is_no_proof_that_nothing_runs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protocol.launched._END_S", 0.1)
    pid, reader = host.begin(argv=("sleep", "4808"), user="daemon", submitter="daemon", grace_s=0.1)
    begun(host, "sleep 4808")
    host.stop(signal.SIGKILL)

    def end() -> object:
        try:
            kill_left_jobs(host.paths.livelocks, find_killer(host.socket))
        except OSError as error:
            return {"told": str(error)}
        return {"told": ""}

    assert "the launcher" in _result(_as_user(NOBODY, end))["told"]
    os.kill(host.supervisors()[0], signal.SIGTERM)
    wait_until(lambda: not pids_of("sleep 4808"), what="the end of the command", timeout_s=PATIENCE_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)


def test_a_command_that_cannot_be_seen_is_no_proof_that_nothing_runs(host: Host) -> None:
    """DESIGN section 14: the mastership is not given away while a command of root goes on, whoever has lost sight."""
    pid, reader = host.begin(argv=("sleep", "4809"), user="root", submitter="root")
    begun(host, "sleep 4809")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    host.stop()
    host.socket.unlink()

    def end() -> object:
        try:
            return {"killed": len(kill_left_jobs(host.paths.livelocks, find_killer(host.socket)))}
        except OSError as error:
            return {"told": str(error)}

    assert "is held by a process that cannot be found here" in _result(_as_user(NOBODY, end))["told"]
    os.kill(host.supervisors()[0], signal.SIGTERM)
    wait_until(lambda: not pids_of("sleep 4809"), what="the end of the command", timeout_s=PATIENCE_S)
    wait_until(lambda: not host.supervisors(), what="the end of its supervisor", timeout_s=PATIENCE_S)
    assert _result(_as_user(NOBODY, end)) == {"killed": 0}


def test_commands_can_be_ended_while_the_rules_cannot_be_read(host: Host) -> None:
    running = host.begin(argv=("sleep", "4810"), user="daemon", submitter="daemon")
    begun(host, "sleep 4810")
    (livelock,) = map(str, host.paths.livelocks.glob("job_1_*"))
    host.rules.write_text("a slip of root's")

    def end(uid: int) -> dict[str, Any]:
        return _result(
            _as_user(uid, lambda: {"ended": len(running_commands(host.socket, livelock, End.KILL))}),
        )

    assert end(NOBODY) == {"ended": 1}
    assert _result(running)["signal"] == "SIGKILL"
    assert "launcher.toml" in host.run(argv=("id",), user="daemon", submitter="daemon")["not_begun"]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "launcher restarted"])
def test_a_command_whose_supervisor_is_killed_is_ended_before_its_job_process_goes_on(
    host: Host, *, restarted: bool
) -> None:
    script = "(setsid sh -c 'sleep 4805; true' &) ; sleep 4806"
    running = host.begin(argv=("sh", "-c", script), user="daemon", submitter="daemon")
    begun(host, "sleep 4805")
    (supervisor,) = host.supervisors()
    if restarted:
        host.stop()
        os.kill(supervisor, signal.SIGKILL)
        host.start()
    else:
        os.kill(supervisor, signal.SIGKILL)

    assert _result(running)["lost"]
    assert pids_of("sleep 480[56]") == []
    wait_until(lambda: host.supervisors() == [], what="the end of its record", timeout_s=PATIENCE_S)


def test_a_caller_that_sends_nothing_or_nonsense_stops_nobody(host: Host) -> None:
    def pester() -> object:
        idle = socket.socket(socket.AF_UNIX)
        idle.connect(str(host.socket))
        said = []
        for payload in (b"nonsense", request_bytes("startCommand", []), request_bytes("other", []), b"[]"):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(host.socket))
                sock.sendall(pack(payload))
                said.append(json.loads(sock.recv(65536).rstrip(b"\x03"))["success"])
        return {"said": said}

    assert _result(_as_user(NOBODY, pester))["said"] == [False] * 4
    assert host.run(argv=("id", "-u"), user="daemon", submitter="daemon")["output"] == "1\n"


def test_without_a_launcher_that_answers_nothing_is_started(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.launcher._CONNECT_S", 0.1)
    host.stop(signal.SIGKILL)

    said = host.run(argv=("id",), user="daemon", submitter="daemon")

    assert "the launcher does not answer" in said["not_begun"]
    host.socket.unlink()
    refused = host.run(argv=("id",), user="daemon", submitter="daemon")
    assert "jobs run as 'nobody' here and cannot become 'daemon'" in refused["refused"]
