"""The form of a schedule: its next runs, its fields, what is wrong with them (DESIGN section 16)."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.schedules.schedule import Missed, Overlap, Schedule
from daemons.rapid.page.jobforms import Texts
from daemons.rapid.page.scheduling import JOB_FIELDS, filled, read_schedule

# 2026-03-28 12:00 UTC: on the next day clocks are set forward in Europe
NOW = 1774699200.0
THERE = Schedule(
    uuid="11111111-2222-3333-4444-555555555555",
    name="nightly",
    cron="0 2 * * *",
    zone="Europe/Athens",
    every_s=0.0,
    job=({"OP_ID": "OP_RUN_COMMAND", "argv": ["backup", "a b"]},),
    overlap=Overlap.QUEUE,
    missed=Missed.ONCE,
    deadline_s=3600.0,
    spread_s=0.0,
    is_paused=False,
    user="ada",
    uid=1000,
    created_at=NOW - 5000,
    changed_at=NOW - 5000,
    settled_at=NOW,
)


def texts(**more: str) -> Texts:
    return Texts({"kind": "command", "name": "new", "command": "true", **more})


def test_the_next_five_runs_are_told_in_the_zone_of_the_words_also_when_clocks_are_set() -> None:
    read = read_schedule(texts(cron="0 2 * * *", zone="Europe/Athens"), None, NOW)

    assert [each.partition(",")[0] for each in read.next] == [
        f"{day} 2026-{date} 02:00:00 {zone}"
        for day, date, zone in (
            ("Sun", "03-29", "EET"),
            ("Mon", "03-30", "EEST"),
            ("Tue", "03-31", "EEST"),
            ("Wed", "04-01", "EEST"),
            ("Thu", "04-02", "EEST"),
        )
    ]


def test_words_with_h_are_told_to_be_chosen_later_and_those_of_a_known_schedule_as_they_are() -> None:
    new = read_schedule(texts(cron="H 2 * * THU"), None, NOW)
    plain = read_schedule(texts(cron="0 2 * MAR THU"), None, NOW)
    changed = read_schedule(Texts({**filled(THERE).values, "cron": "H 2 * * *"}), THERE, NOW)

    assert "H stands for a time that is chosen" in new.note
    assert (plain.note, changed.note) == ("", "")


def test_a_form_that_is_filled_with_a_schedule_changes_nothing_of_it() -> None:
    read = read_schedule(filled(THERE), THERE, NOW)

    assert read.wish is not None
    wish = read.wish
    assert (wish.cron, wish.zone, wish.every_s, wish.job) == (THERE.cron, THERE.zone, None, None)
    assert (wish.overlap, wish.missed, wish.deadline_s, wish.spread_s) == (Overlap.QUEUE, Missed.ONCE, 3600.0, 0.0)
    assert read.read is None


@pytest.mark.parametrize("job", [(), ({"OP_ID": "OP_RUN_COMMAND"},), ({"OP_ID": "OP_GONE"},)])
def test_a_job_that_is_not_told_stays(job: tuple[dict[str, Any], ...]) -> None:
    form = filled(attrs.evolve(THERE, job=job))

    assert form["command"] == ""
    read = read_schedule(Texts({**form.values, "cron": "@daily"}), attrs.evolve(THERE, job=job), NOW)
    assert read.wish is not None
    assert read.wish.job is None


def test_the_job_is_another_one_if_one_of_its_fields_is() -> None:
    form = filled(THERE)
    read = read_schedule(Texts({**form.values, "command": "backup all"}), THERE, NOW)

    assert read.wish is not None
    assert read.wish.job is not None
    assert read.wish.job[0]["argv"] == ["backup", "all"]
    assert form["was"] == form.digest(JOB_FIELDS)


@given(st.dictionaries(st.sampled_from(["name", "cron", "every", "zone", "overlap", "missed", "deadline", "spread"]),
                       st.text(st.sampled_from("0129*/-,@hHLdmwsk .x\x00é"), max_size=12)))  # fmt: skip
def test_any_text_is_read_or_refused_at_a_field(given_texts: dict[str, str]) -> None:
    read = read_schedule(texts(**given_texts), None, NOW)

    assert (read.wish is None) == bool(read.wrong)
    assert all(read.wrong)
