"""Calls of ours: the state beside the job files, many files at a time (DESIGN sections 12 and 13)."""

from pathlib import Path

import pytest

from tests.support.machines.nodes import Node

KEY = f"submissions/{'a' * 40}"


def write(node: Node, *files: tuple[str, str]) -> list[object]:
    found: list[object] = node.call("gantry_write_files", [[[name, [0, content]] for name, content in files]])
    return found


def test_files_of_all_folders_are_written_in_one_call(node: Node) -> None:
    data = node.paths.data
    files = [(KEY, "key"), ("submissions/batch-1-2", "[]"), ("queue/serial", "7\n"), ("queue/job-7", "{}")]

    assert write(node, *files, ("waits/0", "\n{}\n")) == [True, None]

    assert [(data / name).read_text() for name, _ in files] == [content for _, content in files]
    assert (data / "waits/0").read_text() == "\n{}\n"
    assert [(data / name).stat().st_mode & 0o777 for name in (KEY, "queue/job-7")] == [0o600, 0o640]


def test_files_are_removed_wherever_they_lie(node: Node) -> None:
    archived = node.paths.archived_job_file(8)
    archived.parent.mkdir(exist_ok=True)
    archived.write_text("{}")
    write(node, ("queue/job-7", "{}"), (KEY, "key"))
    names = ["queue/job-7", KEY, "queue/archive/0/job-8", "queue/job-99"]

    assert node.call("gantry_remove_files", [names]) == [True, None]

    assert not any((node.paths.data / name).exists() for name in names)


def test_a_long_folder_is_listed_in_parts(node: Node) -> None:
    for number in range(1500):
        (node.paths.waits / str(number)).touch()
    (node.paths.waits / "notes.txt").touch()

    first = node.call("gantry_list_files", ["waits", ""])[1]
    second = node.call("gantry_list_files", ["waits", first[-1]])[1]

    assert (len(first), len(second)) == (1000, 500)
    assert sorted(f"waits/{number}" for number in range(1500)) == first + second


def test_the_archive_lists_its_folders(node: Node) -> None:
    (node.paths.archive / "12").mkdir()
    (node.paths.archive / "12" / "job-120001").touch()

    assert "queue/archive/12" in node.call("gantry_list_files", ["queue/archive", ""])[1]
    assert node.call("gantry_list_files", ["queue/archive/12", ""]) == [True, ["queue/archive/12/job-120001"]]
    assert node.call("gantry_list_files", ["queue/archive/13", ""]) == [True, []]


@pytest.mark.parametrize(
    "name",
    [
        "config.data",
        "epoch",
        "server.pem",
        "queue/lock",
        "queue/../epoch",
        "submissions/../config.data",
        "/etc/passwd",
        f"{KEY}\n",
        "waits/1/2",
        "queue/archive/0/../../lock",
        "submissions",
        "",
    ],
)
def test_other_names_are_refused_and_nothing_is_written(node: Node, name: str) -> None:
    refused = write(node, ("queue/job-50", "{}"), (name, "x"))
    removed = node.call("gantry_remove_files", [["queue/serial", name]])

    assert (refused[0], removed[0]) == (False, False)
    assert "is not a file that may be written" in str(refused[1])
    assert not node.paths.job_file(50).exists()
    assert node.paths.serial_file.exists()


def test_a_folder_that_is_a_link_is_refused(node: Node, tmp_path: Path) -> None:
    waits = node.paths.waits
    moved = waits.rename(waits.with_name("waits-away"))
    waits.symlink_to(tmp_path)
    try:
        assert write(node, ("waits/1", "x"))[0] is False
        assert node.call("gantry_list_files", ["waits", ""])[0] is False
        assert not list(tmp_path.iterdir())
    finally:
        waits.unlink()
        moved.rename(waits)


def test_too_many_files_are_refused(node: Node) -> None:
    names = [f"waits/{number}" for number in range(1001)]

    assert node.call("gantry_remove_files", [names]) == [
        False,
        "gantry_remove_files takes at most 1000 files, got 1001",
    ]
    assert node.call("gantry_list_files", ["output", ""])[0] is False
