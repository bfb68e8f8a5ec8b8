"""Reports have the form that Ganeti's mond was recorded with (mond.md 2 and 3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemons.mond.collectors.machine import ProcessorLoad
from daemons.mond.core.reports import (
    Category,
    CollectorAbout,
    CollectorStatus,
    Report,
    ReportKind,
    StatusCode,
    failed,
    worst,
)

RECORDED = Path(__file__).parents[2] / "data" / "mond" / "exchanges.jsonl"
EXCHANGES = {each["name"]: each for each in map(json.loads, RECORDED.read_text().splitlines())}


def recorded(name: str) -> Any:
    return json.loads(EXCHANGES[name]["body"])


def test_a_report_is_written_as_the_recorded_one() -> None:
    told = recorded("report-default-cpu")
    data = json.dumps(told["data"], separators=(",", ":")).encode()

    report = Report(ProcessorLoad.about(), told["timestamp"], data, CollectorStatus(StatusCode.OK))

    assert report.encode().decode() == EXCHANGES["report-default-cpu"]["body"]


def test_a_category_is_a_word_in_reports_and_lists_and_the_lack_of_one_is_not() -> None:
    lv = CollectorAbout("lv", Category.STORAGE, ReportKind.PERFORMANCE)
    told = recorded("report-lv")

    assert json.loads(Report(lv, told["timestamp"], b"[]", CollectorStatus(StatusCode.OK)).encode()) == told
    rows = recorded("list-collectors")
    assert ProcessorLoad.about().to_wire() == rows[0]
    assert lv.to_wire() == rows[-1]
    assert json.loads(failed(ProcessorLoad.about(), 1, "x").encode())["category"] is None


def test_what_failed_is_told_as_not_known() -> None:
    told = json.loads(failed(CollectorAbout("x", None, ReportKind.STATUS), 7, "no disk").encode())

    assert told["data"] == {"error": "no disk", "status": {"code": 2, "message": "no disk"}}
    assert told["timestamp"] == 7


@pytest.mark.parametrize(
    ("codes", "code"), [([], 0), ([0, 0], 0), ([0, 1], 1), ([2, 1], 2), ([4, 1, 2], 4)], ids=lambda value: str(value)
)
def test_the_worst_code_of_several_counts(codes: list[int], code: int) -> None:
    assert worst(CollectorStatus(StatusCode(each)) for each in codes).code == code


def test_words_of_several_stand_in_lines() -> None:
    assert (
        worst(
            [CollectorStatus(StatusCode.BAD, "a"), CollectorStatus(StatusCode.OK), CollectorStatus(StatusCode.BAD, "b")]
        ).message
        == "a\nb"
    )
