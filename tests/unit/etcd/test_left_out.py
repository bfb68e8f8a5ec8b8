"""Whoever runs the tests hears which of them were left out for want of an etcd."""

from tests.support.etcds.etcdfixtures import NONE, NOT_CRASHABLE, left_out


def test_tests_that_were_left_out_are_counted_and_told_with_what_to_do() -> None:
    words = left_out([f"Skipped: {NONE}", f"Skipped: {NOT_CRASHABLE}", "Skipped: only on Mondays"])

    assert words.startswith("left out: 2 tests")
    assert "install Debian's etcd-server" in words


def test_other_tests_that_were_left_out_are_no_matter_of_etcd() -> None:
    assert left_out(["Skipped: only on Mondays"]) == ""
    assert left_out([]) == ""
