"""Control groups of a real kernel, as far as this machine and user may make them. DESIGN section 16; everyday.md a."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.commands.cgroups import ControlGroup, GroupTree, find_groups, while_starting
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
