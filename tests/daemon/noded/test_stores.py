"""The space of a node's stores; LVM is played by programs that print what the real ones print (noded.md 6)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.nodes import Node

# two disks of which one is used in part
VGS = """#!/bin/sh
case "$*" in
*vg_name=xenvg) echo "  6143.50|10239.00" ;;
*vg_name=broken) echo "no such device" >&2; exit 5 ;;
*vg_name=odd) echo "WARNING: what is this" ;;
esac
"""
PVS = """#!/bin/sh
case "$*" in
*vg_name=xenvg) printf '  5119.00|5119.00\\n  1024.00|5120.00\\n' ;;
esac
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    root = tmp_path_factory.mktemp("stores")
    programs = root / "programs"
    programs.mkdir()
    for name, text in (("vgs", VGS), ("pvs", PVS)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, Node(root / "node") as node:
        patch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        node.start()
        yield node


def space(node: Node, kind: str, key: str, *params: object) -> list[Any]:
    is_done, (_, ((told),), hypervisors) = node.call("node_info", [[[kind, key, list(params)]], [["fake", {}]]])
    assert is_done
    # the other facts are there in any case
    assert hypervisors[0]["memory_total"] > 0
    assert (told["type"], told["name"]) == (kind, key)
    return [told["storage_free"], told["storage_size"]]


def test_a_volume_group_has_the_space_that_lvm_tells_in_mib(node: Node) -> None:
    assert space(node, "lvm-vg", "xenvg", False) == [6144, 10239]


def test_with_exclusive_storage_only_empty_disks_are_free(node: Node) -> None:
    assert space(node, "lvm-vg", "xenvg", True) == [5119, 10239]
    assert space(node, "lvm-pv", "xenvg", True) == [1, 2]
    assert space(node, "lvm-pv", "xenvg", False) == [0, 0]


@pytest.mark.parametrize("group", ["missing", "broken", "odd", "--version", "x || vg_name=xenvg"])
def test_a_group_of_which_lvm_tells_nothing_has_no_space_and_costs_no_other_fact(node: Node, group: str) -> None:
    assert space(node, "lvm-vg", group, False) == [None, None]
    assert space(node, "lvm-pv", group, True) == [None, None]


def test_a_folder_that_is_missing_has_no_space(node: Node, tmp_path: Path) -> None:
    free, size = space(node, "file", str(tmp_path))

    assert 0 < free <= size
    assert space(node, "file", str(tmp_path / "missing")) == [None, None]


def test_the_reason_is_logged_once(node: Node) -> None:
    for _ in range(3):
        space(node, "lvm-vg", "broken", False)

    lines = [line for line in node.log().splitlines() if "store.unknown type=lvm-vg store=broken" in line]
    assert len(lines) == 1
    assert "no such device" in lines[0]


def test_a_machine_without_lvm_tells_its_other_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with Node(tmp_path / "node") as node:
        node.start()
        told = space(node, "lvm-vg", "no-such-group", False)

    assert told == [None, None]
