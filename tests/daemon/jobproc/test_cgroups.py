"""Control groups of a real kernel, as far as this machine and user may make them. DESIGN section 16; everyday.md a."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.commands import cgroups
from common.commands.cgroups import ControlGroup, GroupTree, Way, find_groups, while_starting
from common.commands.execution import Launch, Prelude
from common.commands.spec import Leave
from common.commands.supervision import SupervisorTerms
from common.commands.supervisor import RunningProgram, starter
from common.system.livelock import Livelock
from common.system.signals import ProcessSignals
from tests.support.stopping import stop
from tests.support.wait import wait_until

# each child leaves its session and group and makes four more, which do the same: 200 in all, which no machine minds
STORM = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                break
        time.sleep(600)
    time.sleep(0.002)
time.sleep(600)
"""


@pytest.fixture(params=["v2", "v1"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GroupTree]:
    tree = find_groups(request.param, tmp_path)
    if tree is None:
        pytest.skip(f"no control groups of {request.param} may be made here")
    yield tree
    for name in os.listdir(tree.folder) if os.path.isdir(tree.folder) else ():
        with contextlib.suppress(OSError):
            end(tree.group(name))
    tree.sweep()
    assert not os.path.exists(tree.folder)


def end(group: ControlGroup) -> None:
    def is_ended() -> bool:
        group.kill()
        return group.is_empty()

    wait_until(is_ended, what="the group is empty")


def start_in(group: ControlGroup, *argv: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(argv, preexec_fn=group.enter)


def test_a_fork_storm_that_leaves_its_session_ends_as_a_whole(tree: GroupTree) -> None:
    group = tree.make("job-1.cg")
    process = start_in(group, sys.executable, "-c", STORM)
    wait_until(lambda: len(group.pids()) > 20, what="the storm has begun")

    end(group)

    assert process.wait() == -signal.SIGKILL
    assert not group.pids()
    wait_until(group.remove, what="the group is removed")


def test_a_stopped_process_ends_as_well(tree: GroupTree) -> None:
    group = tree.make("job-2.cg")
    process = start_in(group, "sleep", "600")
    stop(process.pid)

    end(group)

    assert process.wait() == -signal.SIGKILL


def test_a_child_is_in_the_group_from_its_begin(tree: GroupTree) -> None:
    group = tree.make("job-3.cg")
    pid = group.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            signal.pause()
        os._exit(1)
    if tree.way is Way.V1:
        assert pid is None
        return

    assert pid is not None
    assert group.pids() == {pid}
    end(group)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_without_such_a_fork_or_such_a_group_no_process_is_made(
    tree: GroupTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tree.make("job-4.cg")
    # a number that no kernel has: as one before 5.7, or a sandbox that refuses the call
    with monkeypatch.context() as older:
        older.setattr(cgroups, "_CLONE3", 1_000_000)
        assert group.fork() is None
    assert group.remove()

    assert group.fork() is None


@pytest.mark.parametrize("number", [435, 1_000_000])
def test_a_command_runs_in_its_group_whether_the_kernel_forks_into_it_or_not(
    tree: GroupTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(cgroups, "_CLONE3", number)
    told = tmp_path / "told"
    # a job process of its own, which adopts the command's orphans
    pid = os.fork()
    if pid == 0:
        try:
            run_in_group(tree, tmp_path, ("sh", "-c", f"cat /proc/self/cgroup > {told}"))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

    assert "/job-5.cg\n" in told.read_text()


def run_in_group(tree: GroupTree, folder: Path, argv: tuple[str, ...]) -> None:
    terms = SupervisorTerms(
        job_id=5,
        title="supervisor",
        leave=Leave.END,
        timeout_s=None,
        grace_s=1.0,
        groups=tree,
        group_name="job-5.cg",
        run_folder=folder,
    )
    signals = ProcessSignals()
    signals.install()
    livelock = Livelock.create(folder, "job-5-")
    RunningProgram(
        Launch(argv, dict(os.environ), Prelude()), terms, lambda _: None, signals, starter(livelock, signals)
    ).run(lambda: None)


def test_a_group_that_is_made_for_a_command_being_started_is_left_alone_by_a_sweep(
    tree: GroupTree, tmp_path: Path
) -> None:
    with while_starting(tmp_path):
        group = tree.make("job-1.cg")
        tree.sweep()
        process = start_in(group, "sleep", "600")

    assert group.pids() == {process.pid}
    end(group)
    process.wait()
    tree.sweep()
    assert not os.path.exists(group.folder)


def test_a_command_is_started_even_if_sweeps_cannot_be_kept_away(tmp_path: Path) -> None:
    with while_starting(tmp_path / "gone"):
        (tmp_path / "started").touch()

    assert (tmp_path / "started").exists()


def test_a_group_that_holds_a_living_process_is_left_alone_by_a_sweep(tree: GroupTree) -> None:
    lived_in, left_over = tree.make("job-3.cg"), tree.make("job-4.cg")
    process = start_in(lived_in, "sleep", "600")

    tree.sweep()

    assert os.path.exists(lived_in.folder)
    assert not os.path.exists(left_over.folder)
    assert process.poll() is None
    process.kill()
    process.wait()


def test_groups_that_the_command_made_are_ended_and_removed_with_it(tree: GroupTree) -> None:
    group = tree.make("job-5.cg")
    os.mkdir(f"{group.folder}/inner")
    inner = ControlGroup(tree.way, f"{group.folder}/inner")
    process = start_in(inner, "sleep", "600")
    assert group.pids() == {process.pid}

    end(group)

    assert process.wait() == -signal.SIGKILL
    wait_until(group.remove, what="both groups are removed")


def test_a_name_is_used_again_only_when_nobody_lives_there(tree: GroupTree) -> None:
    group = tree.make("job-6.cg")
    assert tree.make("job-6.cg").folder == group.folder
    process = start_in(group, "sleep", "600")

    with pytest.raises(FileExistsError):
        tree.make("job-6.cg")

    process.kill()
    process.wait()


def test_where_none_may_be_made_none_is_found(tmp_path: Path) -> None:
    assert find_groups("off", tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may become another user")
def test_a_user_without_rights_on_the_tree_is_told_that_there_is_none(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nos.setuid(65534)\n"
        "from common.commands.cgroups import find_groups\n"
        "sys.exit(find_groups('auto', Path('/nowhere')) is not None)"
    )
    code = f"from common.commands import cgroups\n{script}"

    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[3]).returncode == 0
