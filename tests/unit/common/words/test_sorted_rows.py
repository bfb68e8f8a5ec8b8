"""The order of rows by a field (cli.md 2, "list")."""

from typing import Any, cast

import pytest

from common.words.fields import JobRow, sort_rows

MIB = 2**20


def row(job_id: int, **values: Any) -> JobRow:
    return cast(JobRow, {"id": job_id, **values})


def used(mebibytes: int, cpu_s: float) -> list[Any]:
    return [
        {
            "usage": {
                "memory_peak_bytes": mebibytes * MIB,
                "memory_of_all": True,
                "cpu_user_s": cpu_s,
                "cpu_system_s": 0.0,
                "read_bytes": mebibytes * MIB,
                "written_bytes": mebibytes * MIB,
            }
        }
    ]


@pytest.mark.parametrize("name", ["memory", "cpu", "read", "written"])
def test_what_was_used_is_sorted_as_a_number_and_not_as_its_text(name: str) -> None:
    # the results of a job's two opcodes look like an instant, and are no usage
    rows = [row(1, opresult=used(9, 9.0)), row(2, opresult=[12, 34]), row(3, opresult=used(100, 100.0))]

    assert [each["id"] for each in sort_rows(rows, name, 0.0)] == [3, 1, 2]
    assert [each["id"] for each in sort_rows(rows, name, 0.0, is_reversed=True)] == [1, 3, 2]


def test_tries_are_sorted_as_a_number() -> None:
    rows = [row(number, tries=[[{}] * number]) for number in (1, 9, 3)]

    assert [each["id"] for each in sort_rows(rows, "tries", 0.0)] == [9, 3, 1]
