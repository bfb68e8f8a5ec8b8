"""What counts as a warning, and what as critical: pure."""

import pytest

from common.featuresettings import HealthSettings
from common.health import (
    Finding,
    Level,
    Room,
    descriptor_findings,
    disk_findings,
    lag_findings,
    luxid_findings,
    queue_findings,
    summary_line,
    worst,
)
from common.system.processuse import ProcessUse

RULES = HealthSettings()


def room(free: int, *, path: str = "/data", free_files: int = 50, failure: str = "") -> Room:
    return Room(path, free, 100, free_files, 100, failure)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (room(10), Level.OK),
        (room(9), Level.WARNING),
        (room(2), Level.CRITICAL),
        (room(0), Level.CRITICAL),
        # files run out before the room does
        (room(90, free_files=2), Level.CRITICAL),
        (Room("/data", 90, 100, 0, 0), Level.OK),
        (Room("/proc", 0, 0, 0, 0), Level.OK),
        (room(90, failure="no reply within 5 s"), Level.CRITICAL),
    ],
)
def test_a_disk_is_told_before_it_is_full(found: Room, level: Level) -> None:
    assert worst(disk_findings([found], RULES)) is level


def test_a_disk_of_several_folders_is_told_once() -> None:
    assert len(list(disk_findings([room(1), room(1, path="/log"), room(2, path="/run")], RULES))) == 2


@pytest.mark.parametrize(("used", "level"), [(80, Level.OK), (81, Level.WARNING), (96, Level.CRITICAL)])
def test_descriptors_are_told_before_they_run_out(used: int, level: Level) -> None:
    process = ProcessUse(descriptors=used, max_descriptors=100)

    assert worst(descriptor_findings({"luxid": process}, RULES)) is level
    assert not list(descriptor_findings({"luxid": ProcessUse(descriptors=9)}, RULES))


def test_a_rule_that_pauses_is_named_with_the_way_to_end_it() -> None:
    (finding,) = queue_findings(is_drained=False, pausing=['u-1 ("noon")'])

    assert finding.text == 'filter rule u-1 ("noon") makes jobs wait'
    assert "gnt-filter delete u-1" in finding.remedy


def test_what_is_critical_counts_more_than_what_is_not_known() -> None:
    unknown = Finding(Level.UNKNOWN, "daemons", "luxid is unknown", "")
    critical = Finding(Level.CRITICAL, "disk", "full", "")

    assert worst([unknown, critical]) is Level.CRITICAL
    assert worst([unknown]) is Level.UNKNOWN
    assert worst([]) is Level.OK
    assert summary_line(Level.CRITICAL, [unknown, critical]) == "critical: disk: full; 1 more"
    assert summary_line(Level.OK, []) == "ok"


def test_all_that_luxid_has_met_is_told() -> None:
    found = list(
        luxid_findings(
            lost_files=3,
            damaged_files=1,
            unread_jobs=2,
            lost_outputs=3,
            history_behind=5000,
            given_up=1,
            rules_off=["chat"],
        )
    )

    assert [each.what for each in found] == [*["job files"] * 3, "output", "history", "notify", "notify"]
    assert not list(
        luxid_findings(damaged_files=0, unread_jobs=0, lost_outputs=0, history_behind=9, given_up=0, rules_off=[])
    )
    assert worst(lag_findings({"n2": 301.0, "n3": 2.0}, RULES)) is Level.WARNING
