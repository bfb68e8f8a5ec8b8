"""Dates of certificates (noded.md 6)."""

import datetime

import pytest

from common.nodes.certificates import VALIDITY, fault_of, make_cluster_certificate, read_certificate

MADE = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (datetime.timedelta(), None),
        (VALIDITY - datetime.timedelta(days=31), None),
        (VALIDITY - datetime.timedelta(days=29), "expires at 2031-02-28 12:00 UTC"),
        (VALIDITY + datetime.timedelta(days=1), "is valid from 2026-02-28 12:00 UTC to 2031-02-28 12:00 UTC, not now"),
        (datetime.timedelta(days=-2), "is valid from 2026-02-28 12:00 UTC to 2031-02-28 12:00 UTC, not now"),
    ],
)
def test_a_certificate_is_complained_about_thirty_days_before_its_end(
    after: datetime.timedelta, words: str | None
) -> None:
    certificate = read_certificate(make_cluster_certificate(MADE))

    assert fault_of(certificate, MADE + after) == words
