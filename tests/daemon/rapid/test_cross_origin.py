"""Pages of other sites: those that the settings name may call what is under /3 with a token, and no others.

Source: Fetch Living Standard, "CORS protocol".
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from common.webaccess.tokens import NewToken, TokensFile
from tests.support.accounts.users import OWN_LOGIN
from tests.support.web.rapid import Web

TOOLS, OTHER = "https://tools.example.org", "https://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
JOB = {"jobs": [{"ops": [{"OP_ID": "OP_TEST_DUMMY"}]}]}
ALLOWED, READABLE = "access-control-allow-origin", "access-control-expose-headers"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    settings = f'allowed_origins = ["{TOOLS}", "http://localhost:8080"]\nrequire_authentication = true\n'
    with Web(tmp_path_factory.mktemp("origins"), settings) as web:
        web.put_users("joan xyz write\n")
        web.start()
        yield web


@pytest.fixture(scope="module")
def client(web: Web) -> httpx2.Client:
    """A program with a token."""
    _, text = TokensFile(web.paths).create(NewToken("tools", ("submit",), None, OWN_LOGIN), time.time())
    return web.remote(token=str(text))


def from_page(origin: str) -> dict[str, str]:
    return {"Origin": origin, "Sec-Fetch-Site": "cross-site"}


def cors(headers: Mapping[str, str]) -> dict[str, str]:
    """What a reply says to browsers of other sites."""
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


def test_a_page_of_an_allowed_site_submits_and_reads(web: Web, client: httpx2.Client) -> None:
    made = client.post("/3/jobs", json=JOB, headers=from_page(TOOLS))
    read = client.get(made.headers["location"], headers=from_page("http://localhost:8080"))

    assert (made.status_code, made.headers[ALLOWED]) == (201, TOOLS)
    assert (read.status_code, read.headers[ALLOWED]) == (200, "http://localhost:8080")
    for name in ("ETag", "Location", "X-Request-Id", "Retry-After", "Link"):
        assert name in made.headers[READABLE].split(", ")
    for reply in (made, read):
        assert "Origin" in reply.headers["vary"]
        assert "access-control-allow-credentials" not in reply.headers


def test_a_browser_is_told_beforehand_without_a_name_and_the_same_for_every_path(web: Web) -> None:
    stranger, told = web.remote(), []

    for path in ("/3", "/3/jobs", "/3/nothing"):
        reply = stranger.options(path, headers={**from_page(TOOLS), **PREFLIGHT})
        assert (reply.status_code, reply.content) == (204, b"")
        told.append(cors(reply.headers))

    assert told[0] == told[1] == told[2]
    assert told[0][ALLOWED] == TOOLS
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(told[0]["access-control-allow-methods"].split(", "))
    sent = {name.lower() for name in told[0]["access-control-allow-headers"].split(", ")}
    assert {"authorization", "content-type", "idempotency-key", "traceparent", "x-request-id"} <= sent
    assert int(told[0]["access-control-max-age"]) > 0


def test_errors_can_be_read_too(web: Web, client: httpx2.Client) -> None:
    refused = web.remote().get("/3/jobs", headers=from_page(TOOLS))
    malformed = client.post("/3/jobs", json={}, headers=from_page(TOOLS))

    assert (refused.status_code, refused.headers[ALLOWED]) == (401, TOOLS)
    assert (malformed.status_code, malformed.headers[ALLOWED]) == (400, TOOLS)


def test_a_stream_can_be_read_too(client: httpx2.Client) -> None:
    with client.stream("GET", "/3/events?topics=queue", headers=from_page(TOOLS)) as stream:
        assert (stream.status_code, stream.headers[ALLOWED], stream.headers["vary"]) == (200, TOOLS, "Origin")


@pytest.mark.parametrize(
    "origin",
    [OTHER, "null", "*", "", "http://tools.example.org", f"{TOOLS}:443", f"{TOOLS}:8443", f"{TOOLS}.evil.example"],
)
def test_a_page_of_another_site_is_told_nothing_and_changes_nothing(client: httpx2.Client, origin: str) -> None:
    asked = client.options("/3/jobs", headers={**from_page(origin), **PREFLIGHT})
    read = client.get("/3/jobs", headers=from_page(origin))
    made = client.post("/3/jobs", json=JOB, headers=from_page(origin))

    assert (asked.status_code, read.status_code, made.status_code) == (405, 200, 403)
    for reply in (asked, read, made):
        assert cors(reply.headers) == {}
        # a cache must not give this reply to an allowed page
        assert "Origin" in reply.headers["vary"]


def test_two_origins_are_none(client: httpx2.Client) -> None:
    both = [("Origin", TOOLS), ("Origin", TOOLS)]

    assert cors(client.get("/3/jobs", headers=both).headers) == {}


def test_a_password_that_a_browser_knows_does_not_count_for_an_allowed_page_either(web: Web) -> None:
    joan = web.remote(auth=("joan", "xyz"))

    for reply in (joan.get("/3/jobs", headers=from_page(TOOLS)), joan.post("/3/queue/drain", headers=from_page(TOOLS))):
        assert (reply.status_code, reply.json()["code"]) == (403, "denied")
    assert web.local.get("/3/queue").json()["drained"] is False


def test_over_the_socket_an_allowed_page_changes_nothing_without_a_token(web: Web) -> None:
    assert web.local.post("/3/queue/drain", headers=from_page(TOOLS)).status_code == 403


@pytest.mark.parametrize("path", ["/ui", "/ui/login", "/2/jobs", "/version", "/metrics", "/"])
def test_only_our_own_interface_is_open(client: httpx2.Client, path: str) -> None:
    asked = client.options(path, headers={**from_page(TOOLS), **PREFLIGHT})
    read = client.get(path, headers=from_page(TOOLS))

    assert asked.status_code in (404, 405, 501)
    assert cors(asked.headers) == cors(read.headers) == {}


def test_without_the_setting_nothing_is_said(tmp_path: Path) -> None:
    with Web(tmp_path) as plain:
        plain.start("rapid")

        asked = plain.local.options("/3/jobs", headers={**from_page(TOOLS), **PREFLIGHT})
        read = plain.local.get("/3", headers=from_page(TOOLS))

        assert asked.status_code == 405
        for reply in (asked, read):
            assert cors(reply.headers) == {}
            assert "Origin" not in reply.headers.get("vary", "")
