"""Files of the kernel, as they were seen on several machines."""

import json
from pathlib import Path

import pytest

from daemons.mond.core.procfiles import (
    busy_ticks,
    command_of,
    disk_statistics,
    load_average,
    memory_bytes,
    process_use,
)

STAT = "cpu  10 20 30 1000 5 6 7 8 9 11\ncpu0 1 2 3 500 1 1 1 1 1 1\ncpu1 9 18 27 500 4 5 6 7 8 10\nintr 5\n"
V1 = "12:memory:/user\n3:freezer:/gantry-0123456789ab/command-7.0.1.cg\n"
V2 = "0::/system.slice/gantry-noded.service/gantry-0123456789ab/job-12.cg\n"


def test_busy_is_all_but_idle() -> None:
    assert busy_ticks(STAT) == [10 + 20 + 30 + 5 + 6 + 7 + 8 + 9 + 11, 12, 94]


def test_the_kernels_here_are_read() -> None:
    assert len(busy_ticks(Path("/proc/stat").read_text())) >= 2
    assert memory_bytes(Path("/proc/meminfo").read_text())["MemTotal"] > 2**20
    assert load_average(Path("/proc/loadavg").read_text()).processes > 1
    assert process_use(Path("/proc/self/stat").read_text()).memory_pages > 0
    disk_statistics(Path("/proc/diskstats").read_text())


@pytest.mark.parametrize("more", ["", " 1 2 3 4", " 1 2 3 4 5 6"])
def test_newer_columns_of_disks_are_left_out(more: str) -> None:
    (disk,) = disk_statistics(f"   8       0 sda 1 2 3 4 5 6 7 8 9 10 11{more}\n")

    assert json.dumps(disk.to_wire()) == (
        '{"major": 8, "minor": 0, "name": "sda", "readsNum": 1, "mergedReads": 2, "secRead": 3, "timeRead": 4, '
        '"writes": 5, "mergedWrites": 6, "secWritten": 7, "timeWrite": 8, "ios": 9, "timeIO": 10, "wIOmillis": 11}'
    )


def test_too_few_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 14 columns"):
        disk_statistics("8 0 sda 1 2 3\n")


def test_names_of_processes_may_look_like_the_rest() -> None:
    text = "7 (a) R 1 (b)) S " + " ".join(str(number) for number in range(4, 45))

    assert process_use(text).cpu_ticks == 14 + 15 + 16 + 17
    assert process_use(text).memory_pages == 24


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (V1, "command-7.0.1"),
        (V2, "job-12"),
        (V2.replace(".cg", ".cg/own/deeper"), "job-12"),
        (V2.replace("job-12", "job-12-detached-3"), "job-12-detached-3"),
        (V2.replace("0123456789ab", "ffffffffffff"), None),
        ("0::/init.scope\n", None),
        (V2.replace("job-12.cg", "trial.cg"), None),
    ],
)
def test_a_command_is_known_by_its_group(text: str, command: str | None) -> None:
    assert command_of(text, "gantry-0123456789ab") == command
