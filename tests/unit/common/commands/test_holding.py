"""Where groups for commands may be made. DESIGN section 16; everyday.md a."""

import pytest

from common.commands.cgroups import GroupFolder, Way, folder_name, group_name, is_group_name, places

UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
HYBRID = """\
25 18 0:21 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
26 18 0:22 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
29 18 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"""
OWN = "5:freezer:/a\n4:memory:/b\n0::/system.slice/gantry-forkserver.service"
V2 = GroupFolder(Way.V2, "/sys/fs/cgroup/unified/system.slice/gantry-forkserver.service")
V1 = GroupFolder(Way.V1, "/sys/fs/cgroup/freezer/a")


@pytest.mark.parametrize(("wanted", "found"), [("auto", (V2, V1)), ("v2", (V2,)), ("v1", (V1,)), ("off", ())])
def test_version_two_comes_first_unless_another_is_wanted(wanted: str, found: tuple[GroupFolder, ...]) -> None:
    assert places(wanted, HYBRID, OWN) == found


def test_of_a_delegated_service_the_group_above_our_subgroup_is_taken() -> None:
    own = "0::/system.slice/gantry-forkserver.service/supervisor"

    assert places("auto", UNIFIED, own) == (
        GroupFolder(Way.V2, "/sys/fs/cgroup/system.slice/gantry-forkserver.service"),
    )


def test_the_root_of_the_tree_is_a_place_too() -> None:
    assert places("auto", UNIFIED, "0::/") == (GroupFolder(Way.V2, "/sys/fs/cgroup"),)


@pytest.mark.parametrize("own", ["0::/elsewhere", "0::/container-2", ""])
def test_a_tree_that_is_mounted_elsewhere_is_none(own: str) -> None:
    mounts = UNIFIED.replace(" / /sys", " /container /sys")

    assert places("auto", mounts, own) == ()


def test_a_part_that_is_mounted_is_seen_from_its_mount() -> None:
    mounts = UNIFIED.replace(" / /sys/fs/cgroup", r" /container /my\040tree")

    assert places("auto", mounts, "0::/container/x") == (GroupFolder(Way.V2, "/my tree/x"),)


def test_names_are_known_again_and_are_no_files_of_the_kernel() -> None:
    names = [group_name(17, 0, is_detached=False), group_name(17, 2, is_detached=True)]

    assert names == ["job-17.cg", "job-17-detached-2.cg"]
    assert all(map(is_group_name, names))
    assert not any(map(is_group_name, ["cgroup.procs", "memory.max", "job-x.cg", "system.slice"]))


def test_installations_do_not_share_a_folder() -> None:
    assert folder_name("/run/gantry") != folder_name("/srv/try/run")
