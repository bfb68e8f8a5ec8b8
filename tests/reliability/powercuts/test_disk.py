"""The model of a disk that loses power: what fsync has promised is there, all else may be lost."""

import random
from collections.abc import Iterable

from tests.reliability.powercuts.disk import Disk, Operation, Tree

FOLDER = "/d"
CHANCE = random.Random(1)


def disk(*, orders: bool, **files: bytes) -> Disk:
    model = Disk({FOLDER: None, **{f"/d/{name}": content for name, content in files.items()}}, orders=orders)
    model.know({f"/d/{name}": number for number, name in enumerate(files, 100)})
    return model


def play(model: Disk, *operations: Operation) -> list[dict[str, bytes]]:
    """The states after these, without the folder."""
    for operation in operations:
        model.play(operation)
    return files_of(tree for _, tree in model.states(CHANCE))


def files_of(trees: Iterable[Tree]) -> list[dict[str, bytes]]:
    found = []
    for tree in trees:
        files = {path: content for path, content in tree.items() if content is not None}
        if files not in found:
            found.append(files)
    return found


def create(name: str, node: int) -> Operation:
    return Operation("create", path=f"/d/{name}", node=node)


def write(node: int, content: bytes, *, offset: int = 0, synced: bool = False) -> Operation:
    return Operation("write", node=node, content=content, offset=offset, synced=synced)


def rename(source: str, target: str) -> Operation:
    return Operation("rename", path=f"/d/{source}", target=f"/d/{target}")


SYNC_FOLDER = Operation("sync", path=FOLDER)


def sync(node: int) -> Operation:
    return Operation("sync", path="/d/any", node=node)


def test_a_file_that_was_replaced_in_the_right_order_is_old_or_new_and_nothing_else() -> None:
    for orders in (True, False):
        model = disk(orders=orders, a=b"old")

        states = play(model, create("t", 1), write(1, b"new"), sync(1), rename("t", "a"))

        assert {state["/d/a"] for state in states} == {b"old", b"new"}
        assert {state["/d/a"] for state in play(model, SYNC_FOLDER)} == {b"new"}


def test_content_that_was_not_synced_before_the_rename_may_be_missing_short_or_zeros() -> None:
    model = disk(orders=True, a=b"old!")

    states = play(model, create("t", 1), write(1, b"new!"), rename("t", "a"), SYNC_FOLDER)

    assert {state["/d/a"] for state in states} == {b"new!", b"", b"ne", b"\0\0\0\0"}


def test_a_removed_file_may_come_back_until_its_folder_is_synced() -> None:
    model = disk(orders=False, a=b"x")

    assert play(model, Operation("unlink", path="/d/a")) == [{}, {"/d/a": b"x"}]
    assert play(model, SYNC_FOLDER) == [{}]


def test_only_a_disk_that_does_not_order_entries_loses_the_first_and_keeps_the_second() -> None:
    operations = (rename("a", "x"), rename("b", "y"))
    second_alone = {"/d/a": b"1", "/d/y": b"2"}

    assert second_alone not in play(disk(orders=True, a=b"1", b=b"2"), *operations)
    assert second_alone in play(disk(orders=False, a=b"1", b=b"2"), *operations)


def test_what_was_written_through_a_syncing_descriptor_is_safe_at_once() -> None:
    model = disk(orders=True, a=b"12")

    assert play(model, write(100, b"34", offset=2, synced=True)) == [{"/d/a": b"1234"}]


def test_a_file_in_a_folder_that_was_lost_is_lost() -> None:
    model = disk(orders=False, a=b"x")

    states = play(
        model,
        Operation("mkdir", path="/d/sub", node=7),
        Operation("rename", path="/d/a", target="/d/sub/a"),
        Operation("sync", path="/d/sub"),
    )

    assert {} in states
    assert {"/d/sub/a": b"x"} in states


def test_running_processes_see_everything() -> None:
    model = disk(orders=True, a=b"x")
    play(model, create("b", 1), write(1, b"new"), Operation("unlink", path="/d/a"))

    assert files_of([model.now()]) == [{"/d/b": b"new"}]
