"""Which requests browsers send for pages of other sites."""

import pytest
from starlette.datastructures import Headers

from daemons.rapid.transport.callers import is_of_another_site, is_of_host

HOST = {"host": "gantry.example:5080"}


@pytest.mark.parametrize(
    ("headers", "is_foreign"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "what comes later"}, True),
        ({"origin": "https://gantry.example:5080"}, False),
        ({"origin": "https://gantry.example"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        # whoever is on the way can write such a page
        ({"origin": "http://gantry.example:5080"}, True),
        # a proxy that changes the name of the host
        ({"sec-fetch-site": "same-origin", "origin": "https://jobs.example"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "https://gantry.example:5080"}, True),
    ],
)
def test_a_browser_says_for_whom_it_sends(headers: dict[str, str], is_foreign: bool) -> None:
    assert is_of_another_site(Headers({**HOST, **headers}), is_encrypted=True) is is_foreign


@pytest.mark.parametrize(
    "origin", ["", "null", "https://", "https://[", "file://gantry.example:5080", "gantry.example"]
)
def test_what_is_no_origin_is_of_no_host(origin: str) -> None:
    assert not is_of_host(origin, "gantry.example:5080", is_encrypted=False)
    assert not is_of_host(origin, "", is_encrypted=False)


def test_a_page_without_encryption_is_ours_only_where_we_are_reached_without_it() -> None:
    origin, host = "http://gantry.example:5080", "gantry.example:5080"

    assert is_of_host(origin, host, is_encrypted=False)
    assert not is_of_host(origin, host, is_encrypted=True)
