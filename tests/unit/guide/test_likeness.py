"""What counts as the output that a page shows."""

import pytest

from tests.guide.likeness import Known, match, match_line, merged

NOTHING = Known()


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("ended 2026-11-23 03:12:04 after 1.2 s", "ended 2027-01-02 23:59:59 after 13 s"),
        ("queued 1m33s, next in 20h36m", "queued 19s, next in 1d22h"),
        ("ID  TIME    SUMMARY", "ID  TIME  SUMMARY"),
        ("luxid  ready  pid 85", "luxid  ready  pid 12345"),
        ("luxid  ready   85  2026-11-23 03:12", "luxid  ready  12345  2026-11-24 03:12"),
        ("next run in 1d20h, then 5m00s", "next run in 20h16m, then 3s"),
        ("Mon Nov 23 03:43:35 2026 try 1", "Tue Dec  1 13:00:00 2026 try 1"),
        ("memory 12.5 MiB", "memory 9K"),
        ("since 03:12", "since 23:59"),
        ("batch … of …", "batch 12 of many words"),
        ("web1   …   ready", "web1  x   ready"),
    ],
)
def test_values_of_one_kind_are_alike(said: str, seen: str) -> None:
    assert match_line(said, seen, NOTHING) is not None


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("job 1", "job 2"),
        ("after 1.2 s", "after -"),
        ("success", "error"),
        ("3 jobs", "4 jobs"),
        ("  indented", "indented"),
        ("ended 2026-11-23", "ended"),
        ("batch … of 3", "batch 1 of 4"),
    ],
)
def test_other_words_and_numbers_are_not_alike(said: str, seen: str) -> None:
    assert match_line(said, seen, NOTHING) is None


def test_three_dots_stand_for_any_lines() -> None:
    assert match(["a", "...", "z"], ["a", "b", "c", "z"], NOTHING) is not None
    assert match(["a", "...", "z"], ["a", "z"], NOTHING) is not None
    assert match(["a", "...", "z"], ["a", "b", "c"], NOTHING) is None


def test_a_made_up_name_is_the_same_everywhere() -> None:
    known = match_line("batch 5f2c8a10b4de", "batch 0a1b2c3d4e5f", NOTHING)

    assert known is not None
    assert known.in_this_run("gnt-job batch info 5f2c8a10b4de") == "gnt-job batch info 0a1b2c3d4e5f"
    assert match_line("of 5f2c8a10b4de", "of 0a1b2c3d4e5f", known) is not None
    assert match_line("of 5f2c8a10b4de", "of ffffffff0000", known) is None


def test_a_rewritten_output_keeps_what_holds_and_the_names_of_the_page() -> None:
    known = Known({"5f2c8a10b4de": "0a1b2c3d4e5f"})
    said = ["took 1 s", "old", "…", "last 3 min"]

    assert merged(said, ["took 9 s", "new of 0a1b2c3d4e5f", "more", "last 4 min"], known) == (
        "took 1 s",
        "new of 5f2c8a10b4de",
        "…",
        "last 3 min",
    )
    assert merged(["old"], ["new of 0a1b2c3d4e5f"], known) == ("new of 5f2c8a10b4de",)
