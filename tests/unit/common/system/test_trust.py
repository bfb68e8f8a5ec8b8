"""Folders in which other users could meddle are refused. Source: DESIGN section 4; path_resolution(7)."""

import os
from pathlib import Path

import pytest

from common.errors import Denied
from common.system.accounts import check_trusted, check_trusted_tree

NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def test_a_folder_of_our_own_is_trusted_and_so_is_what_is_not_made_yet(tmp_path: Path) -> None:
    check_trusted(tmp_path)
    check_trusted(tmp_path / "not" / "made" / "yet")


def test_a_folder_below_tmp_is_trusted_as_nobody_else_can_rename_it() -> None:
    check_trusted(Path("/tmp/gantry-that-nobody-has-made"))


def test_a_part_that_everybody_can_write_is_refused_by_name(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)

    with pytest.raises(Denied, match=f"'{open_folder}' can be written by every user"):
        check_trusted(open_folder / "root" / "lib")


def test_a_sticky_folder_that_is_not_roots_is_refused_when_all_can_write(tmp_path: Path) -> None:
    folder = tmp_path / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, -1)

    with pytest.raises(Denied, match=r"belongs to user|can be written by every user"):
        check_trusted(folder)


@only_root
def test_a_group_may_write_only_if_it_is_the_daemons(tmp_path: Path) -> None:
    os.chown(tmp_path, -1, 1234)
    tmp_path.chmod(0o770)

    with pytest.raises(Denied, match="can be written by group 1234"):
        check_trusted(tmp_path)
    check_trusted(tmp_path, frozenset({1234}))


@only_root
def test_a_folder_of_another_user_is_refused_wherever_it_is_in_the_path(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "lib" / "queue").mkdir(parents=True)
    os.chown(theirs, NOBODY, -1)

    with pytest.raises(Denied, match=f"'{theirs}' belongs to user 'nobody'"):
        check_trusted(theirs / "lib" / "queue")
    check_trusted(theirs / "lib" / "queue", uids={NOBODY})


@only_root
def test_a_link_of_another_user_is_refused_though_it_leads_to_a_folder_of_ours(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    link = tmp_path / "link"
    link.symlink_to(ours)
    os.lchown(link, NOBODY, -1)

    with pytest.raises(Denied, match=f"'{link}' belongs to user"):
        check_trusted(link / "lib")


def test_what_lies_behind_a_link_counts(tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    behind.mkdir()
    behind.chmod(0o777)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to("../behind")

    with pytest.raises(Denied, match=f"'{behind}' can be written"):
        check_trusted(tmp_path / "sub" / "link" / "lib")


def test_a_ring_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(Denied, match="too many links"):
        check_trusted(tmp_path / "a")


def test_a_folder_with_nothing_that_others_can_change_is_trusted_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "package")

    check_trusted_tree(tmp_path)


@only_root
def test_plugins_of_another_user_are_refused_unless_he_is_trusted(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.touch()
    os.chown(module, NOBODY, -1)

    with pytest.raises(Denied, match=f"'{module}' belongs to user 'nobody'"):
        check_trusted_tree(tmp_path)
    check_trusted_tree(tmp_path, {NOBODY})


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_one_file_deep_within_that_others_can_write_is_refused_by_name(tmp_path: Path, mode: int) -> None:
    module = tmp_path / "package" / "module.py"
    module.parent.mkdir()
    module.touch()
    module.chmod(mode)

    with pytest.raises(Denied, match=f"'{tmp_path}' is not safe to use: '{module}' can be written by every user"):
        check_trusted_tree(tmp_path)


def test_a_sticky_folder_within_is_refused_too_as_anybody_may_add_to_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)

    with pytest.raises(Denied, match=f"'{shared}' can be written by every user"):
        check_trusted_tree(tmp_path)


def test_a_link_to_a_place_that_others_can_write_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "link").symlink_to(elsewhere)

    with pytest.raises(Denied, match=f"'{elsewhere}' can be written by every user"):
        check_trusted_tree(folder)
