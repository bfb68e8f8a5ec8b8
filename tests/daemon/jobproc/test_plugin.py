"""Opcodes and units of a plug-in package, and what becomes of a job whose unit misbehaves. DESIGN section 7."""

import signal
from collections.abc import Iterator
from os import kill
from pathlib import Path
from typing import Any

import pytest

from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.queue.jobs import JobState
from daemons.wconfd.core.locks.waiting import LockState
from tests.support.daemons.forkserver import JobHost
from tests.support.wait import wait_until

OPCODES = """
from typing import Any, ClassVar
import attrs
from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import LockLevel, LockMode
from common.opcodes.base import OpCode

@attrs.frozen(kw_only=True)
class OpDemo(OpCode):
    OP_ID: ClassVar[str] = "OP_DEMO"
    do: str

    def lock_declaration(self):
        if self.do not in ("dynamic", "upgrade"):
            return LockDeclaration(bgl=None if self.do == "nothing" else LockMode.SHARED)
        return LockDeclaration(levels={
            LockLevel.INSTANCE: (LevelDeclaration(LockMode.SHARED, Scope.ALL),),
            LockLevel.NODE: (LevelDeclaration(LockMode.EXCLUSIVE, Scope.UNKNOWN),),
        })

@attrs.frozen(kw_only=True)
class OpNobody(OpCode):
    OP_ID: ClassVar[str] = "OP_NOBODY"
"""
UNITS = """
import sys, time
from demo_opcodes import OpDemo
from common.locks import LockLevel, LockMode, LockRequest, member_lock, parse_lock
from daemons.jobproc.units.base import LogicalUnit

class DemoUnit(LogicalUnit):
    OPCODE = OpDemo

    def declare_locks(self, level, context):
        if self.op.do == "dynamic" and level is LockLevel.NODE:
            names = sorted(map(str, context.locks.held))
            assert names == ["cluster/BGL", "instance/[lockset]"], names
            return [LockRequest(member_lock(level, "n1"), LockMode.EXCLUSIVE)]
        if self.op.do == "upgrade" and level is LockLevel.NODE:
            return [LockRequest(parse_lock("instance/[lockset]"), LockMode.EXCLUSIVE)]
        return super().declare_locks(level, context)

    def run(self, context):
        return getattr(self, "_" + self.op.do)(context)

    def _nothing(self, context):
        return sorted(map(str, context.locks.held))

    def _crash(self, context):
        return {}["no such key"]

    def _exit(self, context):
        sys.exit(3)

    def _unjson(self, context):
        return object()

    def _surrogate(self, context):
        context.feedback("name \\udcff")
        raise OSError("bad name \\udcff")

    def _secret(self, context):
        return dict(context.secrets)

    def _config(self, context):
        return [context.config.cluster.cluster_name, [node.name for node in context.config.nodes]]

    def _port(self, context):
        before = context.config
        port = before.allocate_port()
        return [port, before.cluster.cluster_name, context.config is before, context.config is context.config]

    def _progress(self, context):
        context.progress(0.5, "half")

    def _chatter(self, context):
        for number in range(20000):
            context.feedback(f"line {number}")

    def _dynamic(self, context):
        context.locks.downgrade(LockLevel.NODE)
        held = {str(lock): mode.value for lock, mode in context.locks.held.items()}
        context.locks.release([parse_lock("instance/[lockset]")])
        return [held, sorted(map(str, context.locks.held)), context.wait(0)]
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[JobHost]:
    """A fork server with the plug-in installed."""
    package = tmp_path / "site"
    info = package / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gantry.opcodes]\ndemo = demo_opcodes\n[gantry.units]\ndemo = demo_units\n")
    (package / "demo_opcodes.py").write_text(OPCODES)
    (package / "demo_units.py").write_text(UNITS)
    host = JobHost(tmp_path)
    try:
        host.start_server(PYTHONPATH=str(package))
        yield host
    finally:
        host.close()


def demo(do: str) -> dict[str, Any]:
    return {"OP_ID": "OP_DEMO", "do": do}


def test_opcode_without_any_lock_does_not_bother_wconfd(host: JobHost) -> None:
    assert host.run(1, demo("nothing")).ops[0].result == []
    assert host.wconfd.requests == []


def test_exception_of_a_unit_is_wrapped_and_its_traceback_only_logged(host: JobHost) -> None:
    job = host.run(1, demo("crash"), demo("nothing"))

    assert job.ops[0].result == ["OpExecError", ["KeyError: 'no such key'"]]
    assert host.states(1) == ["error", "error"]
    assert "Traceback" in host.log()
    assert host.wconfd.owners() == []


def test_unit_that_calls_exit_fails_and_does_not_leave_the_job_running(host: JobHost) -> None:
    job = host.run(1, demo("exit"))

    assert job.ops[0].result == ["OpExecError", ["SystemExit: 3"]]


def test_result_that_is_no_json_fails_the_opcode(host: JobHost) -> None:
    job = host.run(1, demo("unjson"))

    assert job.state is JobState.ERROR
    assert "the result is not JSON" in job.ops[0].result[1][0]


def test_undecodable_text_reaches_the_file_in_some_form(host: JobHost) -> None:
    job = host.run(1, demo("surrogate"))

    assert job.ops[0].result == ["OpExecError", ["OSError: bad name ?"]]
    assert [entry.message for entry in job.ops[0].log] == ["name ?"]


def test_secrets_reach_the_unit_of_their_opcode_and_no_file(host: JobHost) -> None:
    host.write_job(1, demo("nothing"), demo("secret"))

    started = host.go(host.fork(1), [None, {"password": "x"}])
    host.wait_exit(started.pid)

    assert [op.result for op in host.job(1).ops] == [[], {"password": "x"}]
    assert "password" not in str([op.input for op in host.job(1).ops])


def test_unit_reads_the_configuration(host: JobHost) -> None:
    assert host.run(1, demo("config")).ops[0].result == ["cluster.test", ["node1.test"]]


def test_the_configuration_is_read_once_and_again_after_a_change_of_the_units_own(host: JobHost) -> None:
    assert host.run(1, demo("port")).ops[0].result == [11000, "cluster.test", False, True]
    asked = [method for method in host.wconfd.methods if method in ("readConfig", "allocatePort")]
    assert asked == ["readConfig", "allocatePort", "readConfig"]


def test_progress_is_a_line_of_the_log(host: JobHost) -> None:
    assert [entry.message for entry in host.run(1, demo("progress")).ops[0].log] == ["50 %: half"]


def test_chatty_unit_does_not_write_the_file_for_each_line(host: JobHost) -> None:
    job = host.run(1, demo("chatter"))

    assert [entry.serial for entry in job.ops[0].log] == list(range(1, 20001))


def test_dynamic_level_is_declared_while_the_earlier_ones_are_held(host: JobHost) -> None:
    job = host.run(1, demo("dynamic"))

    held = {"cluster/BGL": "shared", "instance/[lockset]": "shared", "node/n1": "shared"}
    assert job.ops[0].result == [held, ["cluster/BGL", "node/n1"], False]
    assert host.wconfd.methods == [
        "updateLocksWaiting",
        "updateLocksWaiting",
        "downGradeLocksLevel",
        "tryUpdateLocks",
        "freeLocks",
    ]


def test_cancel_while_a_dynamic_level_is_awaited_frees_the_earlier_ones(host: JobHost) -> None:
    stranger = Owner("stranger", "/nowhere")
    host.wconfd.hold(stranger, LockRequest(parse_lock("node/n1"), LockMode.SHARED))
    started = host.start(1, demo("dynamic"))
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")
    assert 1 in host.wconfd.owners()

    kill(started.pid, signal.SIGTERM)
    host.wait_exit(started.pid)

    assert host.states(1) == ["canceled"]
    assert host.wconfd.owners() == ["stranger"]


def test_new_priority_keeps_the_locks_of_earlier_levels(host: JobHost) -> None:
    stranger = Owner("stranger", "/nowhere")
    host.wconfd.hold(stranger, LockRequest(parse_lock("node/n1"), LockMode.SHARED))
    started = host.start(1, demo("dynamic"))
    wait_until(lambda: "waitLocks" in host.wconfd.methods, what="the job waits")
    (host.paths.messages / "1.prio").write_text("5")

    kill(started.pid, signal.SIGUSR1)
    wait_until(lambda: [item.priority for item in host.wconfd.pending()] == [5], what="it is queued anew")
    host.wconfd.free(stranger)
    host.wait_exit(started.pid)

    assert host.states(1) == ["success"]


def test_a_job_that_would_wait_for_one_that_waits_for_it_says_for_whom(host: JobHost) -> None:
    other = Owner(9, "/nowhere")
    lock = parse_lock("instance/[lockset]")
    host.wconfd.state = LockState.fair(100)
    host.wconfd.hold(other, LockRequest(lock, LockMode.SHARED))
    stranger = Owner("stranger", "/nowhere")
    host.wconfd.hold(stranger, LockRequest(lock, LockMode.SHARED))
    host.wconfd.ask(other, LockRequest(lock, LockMode.EXCLUSIVE))

    job = host.run(1, demo("upgrade"), demo("nothing"))

    assert job.ops[0].result == [
        "GenericError",
        [
            "deadlock: job/1 would wait for job/9, which waits for job/1; "
            "release what it holds, and ask for all in one request"
        ],
    ]
    assert host.states(1) == ["error", "error"]
    assert [str(each.owner) for each in host.wconfd.pending()] == ["job/9"]


def test_opcode_without_a_unit_fails_and_says_so(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_NOBODY"})

    assert job.ops[0].result[0] == "OpCodeUnknown"
    assert "no logical unit carries out OP_NOBODY" in job.ops[0].result[1][0]
