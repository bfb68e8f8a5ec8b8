"""An executor that behaves as Ganeti's does, for tests of luxid with an external one.

    python -m tests.support.fakes.executor ROOT JOB_ID

Its livelock has a POSIX lock only; job files are replaced by a rename, with other separators, without an fsync, and
with mode 0640. `ROOT/standin` is a JSON object that says how it misbehaves: `slow_s` (before anything else),
`die_at` and `hang_at` (a step below), `ignores_term`, `heeds_pause` (it says so, and only notes it). What it
was given is left in `ROOT/standin-<job id>`; one that hangs makes `ROOT/standin-hangs-<job id>`.
An opcode with a `duration` also ends when there is a file `ROOT/go` or `ROOT/go-<job id>`; a command is not run, and
ends only then.

For each opcode it has locks from wconfd: the BGL shared, then those of its `locks`, in one request that waits
for SIGHUP if it is pending. The attempts have no timeouts; they end at a new priority, and all is asked for again.
What it saw of that is added to `ROOT/standin-events`, a line `<job id> <event>` each.

Source: luxid.md 3.1, 9; wconfd.md 1, 3, 8.
"""

import contextlib
import fcntl
import json
import math
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from common.paths import Paths

STEPS_BEFORE_GO = ("begin", "livelock", "sent")
STEPS_AFTER_GO = ("go", "asked", "secrets", "loaded", "waiting", "running", "ended")
ETX = b"\x03"
LEVELS = ("cluster", "instance", "nodegroup", "node", "node-res", "network")


class StandIn:
    """One job process."""

    def __init__(self, root: Path, job_id: int) -> None:
        self.root, self.job_id = root, job_id
        self.paths = Paths.under_root(root)
        self.how: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError):
            self.how = json.loads((root / "standin").read_text())
        self.job: dict[str, Any] = {}
        self.owner: list[Any] = []
        self.term_came = self.hup_came = self.has_new_priority = False

    def run(self) -> None:
        # a hanging one must not outlast its test for long
        signal.alarm(300)
        time.sleep(self.how.get("slow_s", 0))
        self.step("begin")
        livelock = self.paths.livelocks / f"job_{self.job_id:06d}_{int(time.time())}"
        fd = os.open(livelock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        self.owner = [self.job_id, str(livelock), os.getpid()]
        self.step("livelock")
        self.shake_hands(livelock)
        self.wconfd("echo", "hello")
        signal.signal(signal.SIGTERM, self.on_term)
        signal.signal(signal.SIGHUP, self.on_hup)
        signal.signal(signal.SIGUSR1, self.on_priority)
        self.job = json.loads(self.paths.job_file(self.job_id).read_text())
        self.job["process_id"] = os.getpid()
        self.step("loaded")
        for op in self.job["ops"]:
            if op["status"] == "queued" and not self.carry_out(op):
                break
        self.job["end_timestamp"] = stamp()
        self.write()
        self.step("ended")
        livelock.unlink()

    def shake_hands(self, livelock: Path) -> None:
        os.write(1, os.fsencode(livelock) + ETX)
        self.step("sent")
        go = receive()
        self.step("go")
        os.write(1, (b"pause" if self.how.get("heeds_pause") else b"") + ETX)
        self.step("asked")
        secrets = receive()
        given: dict[str, Any] = {"go": go.decode(), "secrets": secrets.decode(), "fds": open_fds()}
        given |= {"debug": os.environ.get("GNT_DEBUG"), "session": os.getsid(0) == os.getpid()}
        (self.root / f"standin-{self.job_id}").write_text(json.dumps(given))
        os.close(0)
        os.close(1)
        self.step("secrets")

    def carry_out(self, op: dict[str, Any]) -> bool:
        op["status"], op["start_timestamp"] = "waiting", stamp()
        self.job["start_timestamp"] = self.job.get("start_timestamp") or stamp()
        self.write()
        self.step("waiting")
        if not self.get_locks(op):
            self.end_rest("canceled", "Job canceled by request")
            return False
        self.execute(op)
        # before the result is written, as Ganeti does it
        self.free_locks(op)
        return self.end(op)

    def execute(self, op: dict[str, Any]) -> None:
        op["status"], op["exec_timestamp"] = "running", stamp()
        self.write()
        self.step("running")
        deadline = time.monotonic() + op["input"].get("duration", math.inf if "argv" in op["input"] else 0)
        gates = (self.root / "go", self.root / f"go-{self.job_id}")
        while (left_s := deadline - time.monotonic()) > 0 and not any(gate.exists() for gate in gates):
            time.sleep(min(left_s, 0.02))

    def end(self, op: dict[str, Any]) -> bool:
        """Whether the job goes on."""
        if op["input"].get("fail"):
            self.end_rest("error", ["OpExecError", [op["input"]["fail"]]])
            return False
        op["status"], op["end_timestamp"], op["result"] = "success", stamp(), op["input"].get("result")
        if self.term_came:
            self.end_rest("canceled", "Job canceled by request")
        self.write()
        return not self.term_came

    def get_locks(self, op: dict[str, Any]) -> bool:
        """Whether the opcode has its locks; not if the job is to be canceled."""
        wanted = sorted([lock, mode] for lock, mode in op["input"].get("locks", {}).items())
        while not self.term_came:
            self.has_new_priority = False
            if self.request_and_wait(op, [["cluster/BGL", "shared"]]) and self.request_and_wait(op, wanted):
                held = self.wconfd("listLocks", self.owner)
                self.note(f"has {' '.join(name for name, _ in held)}")
                if not self.term_came:
                    return True
            self.free_locks(op)
        return False

    def request_and_wait(self, op: dict[str, Any], wanted: list[list[str]]) -> bool:
        """One attempt (wconfd.md 8.3)."""
        self.hup_came = False
        blockers = self.wconfd("updateLocksWaiting", self.owner, op["priority"], wanted)
        if not self.wconfd("hasPendingRequest", self.owner):
            return True
        self.note(f"pending {op['priority']} behind {' '.join(str(ident) for ident, _, _ in blockers)}")
        while not (self.term_came or self.has_new_priority):
            if self.hup_came:
                self.hup_came = False
                self.note("hup")
                if not self.wconfd("hasPendingRequest", self.owner):
                    return True
            time.sleep(0.02)
        return False

    def free_locks(self, op: dict[str, Any]) -> None:
        self.note("frees")
        self.wconfd("dropAllReservations", self.owner)
        used = {lock.partition("/")[0] for lock in op["input"].get("locks", {})} | {"cluster"}
        for level in reversed([level for level in LEVELS if level in used]):
            self.wconfd("freeLocksLevel", self.owner, level)

    def wconfd(self, method: str, *args: Any) -> Any:
        """Call wconfd, on a connection for this call alone."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.paths.wconfd_socket))
            sock.sendall(json.dumps({"method": method, "args": args}).encode() + b"\n" + ETX)
            reply = b""
            while not reply.endswith(ETX):
                part = sock.recv(4096)
                assert part, f"wconfd closed the connection instead of an answer to {method}"
                reply += part
        answer = json.loads(reply[:-1])
        assert answer["success"], f"{method}: {answer['result']}"
        return answer["result"]

    def note(self, event: str) -> None:
        with (self.root / "standin-events").open("a") as events:
            events.write(f"{self.job_id} {event}\n")

    def end_rest(self, status: str, result: Any) -> None:
        for op in self.job["ops"]:
            if op["status"] in ("queued", "waiting", "running"):
                op["status"], op["result"] = status, result

    def write(self) -> None:
        target = self.paths.job_file(self.job_id)
        temp = target.with_name(f"{target.name}-{os.getpid()}.tmp")
        temp.write_text(json.dumps(self.job) + "\n")
        temp.chmod(0o640)
        temp.rename(target)

    def on_term(self, *_: object) -> None:
        self.term_came = not self.how.get("ignores_term", False)

    def on_hup(self, *_: object) -> None:
        self.hup_came = True

    def on_priority(self, *_: object) -> None:
        path = self.paths.messages / f"{self.job_id}.prio"
        if self.paths.pause_message(self.job_id).exists() and not path.exists():
            self.note("is to pause")
            return
        mode = path.stat().st_mode & 0o777
        priority = int(path.read_text())
        path.unlink()
        (self.root / f"standin-priority-{self.job_id}").write_text(f"{priority} {mode:o}")
        for op in self.job["ops"]:
            if op["status"] in ("queued", "waiting"):
                op["priority"] = priority
        self.has_new_priority = True
        self.write()

    def step(self, name: str) -> None:
        if self.how.get("die_at") == name:
            os._exit(1)
        if self.how.get("hang_at") == name:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGABRT, signal.SIG_IGN)
            (self.root / f"standin-hangs-{self.job_id}").touch()
            while True:
                signal.pause()


def receive() -> bytes:
    """One message from luxid, without its end."""
    message = b""
    while not message.endswith(ETX):
        byte = os.read(0, 1)
        if not byte:
            # luxid is gone, and no go-ahead will come
            os._exit(1)
        message += byte
    return message[:-1]


def open_fds() -> list[int]:
    fds = [int(name) for name in os.listdir("/proc/self/fd")]
    return sorted(fd for fd in fds if fd > 2 and Path(f"/proc/self/fd/{fd}").exists())


def stamp() -> list[int]:
    now = time.time()
    return [int(now), int(now % 1 * 1e6)]


if __name__ == "__main__":
    StandIn(Path(sys.argv[1]), int(sys.argv[2])).run()
