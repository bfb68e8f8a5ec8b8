"""Each request gets a reply in the form of its face, from the row that fits it."""

import os
import pwd
import re
import secrets
import time
from collections.abc import Iterator

import httpx2
import pytest

from common.webaccess.tokens import NewToken, TokensFile
from tests.support.accounts.users import OWN_LOGIN
from tests.support.wait import wait_until
from tests.support.web.rapid import Web


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web


def test_the_health_of_a_master_names_it(web: Web) -> None:
    replies: list[httpx2.Response] = []

    def is_well() -> bool:
        replies.append(web.local.get("/3/health"))
        return replies[-1].status_code == 200

    wait_until(is_well, what="luxid has replied in time")
    found = replies[-1].json()
    assert (found["ok"], found["is_master"], found["master"], found["reason"]) == (True, True, "node1.test", None)


def test_the_index_lists_the_calls(web: Web) -> None:
    calls = web.local.get("/3").json()["calls"]

    assert {"verb": "GET", "path": "/3/health"}.items() <= calls[0].items()


@pytest.mark.parametrize("path", ["/2/nothing", "/2/jobs/", "/2/", "/2/jobs/x%2Fwait"])
def test_an_unknown_path_of_ganeti_is_refused_in_its_form(web: Web, path: str) -> None:
    reply = web.local.get(path)

    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/json")
    assert reply.json() == {
        "code": 404,
        "message": f"there is no &#x27;{reply.url.path}&#x27; here",
        "explain": "Nothing matches the given URI",
    }


@pytest.mark.parametrize("path", ["/3/nothing", "/3/health/", "/else", "/3/" + "x" * 5000])
def test_an_unknown_path_of_ours_is_a_problem(web: Web, path: str) -> None:
    reply = web.local.get(path)

    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert reply.json() == {
        "type": "/3/problems#not_found",
        "title": "There is no such thing",
        "status": 404,
        "detail": f"there is no '{path[:200]}' here",
        "code": "not_found",
    }


def test_at_the_front_a_browser_is_led_to_the_page_and_a_program_gets_nothing(web: Web) -> None:
    browser = web.local.get("/", headers={"Accept": "text/html,*/*;q=0.8"}, follow_redirects=False)
    program = web.local.get("/", headers={"Accept": "application/json"})

    assert (browser.status_code, browser.headers["location"]) == (303, "/ui")
    assert (program.status_code, program.json()) == (200, None)


def test_each_reply_has_a_date_and_the_name_of_the_server(web: Web) -> None:
    for path in ("/3", "/2/nothing"):
        headers = web.local.get(path).headers
        assert headers["server"].startswith("Gantry ")
        assert headers["date"].endswith(" GMT")


def test_a_wrong_verb_is_refused_with_those_there_are(web: Web) -> None:
    reply = web.local.delete("/3/health")

    assert (reply.status_code, reply.headers["allow"], reply.json()["code"]) == (405, "GET", "invalid")


def test_head_has_the_headers_of_get_and_no_body(web: Web) -> None:
    get, head = web.local.get("/3"), web.local.head("/3")

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


def test_a_connection_is_used_again_after_a_refusal_with_a_body_that_nobody_wants(web: Web) -> None:
    for _ in range(3):
        reply = web.local.post("/3/nothing", content=b"x" * 300_000)
        assert reply.status_code == 404
    assert web.local.get("/3").status_code == 200


def test_the_health_tells_that_luxid_is_gone_and_that_it_is_back(web: Web) -> None:
    web.cluster.kill("luxid")

    down = web.local.get("/3/health")
    web.cluster.start("luxid")

    assert (down.status_code, down.json()["reason"]) == (503, "luxid does not answer")
    wait_until(lambda: web.local.get("/3/health").json()["ok"], what="luxid is back")


def test_each_change_is_logged_with_who_from_where_what_and_the_result(web: Web) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    before = len(web.log().splitlines())

    web.local.delete("/2/jobs/4711")
    web.local.get("/2/jobs/4711")

    (line,) = [line for line in web.log().splitlines()[before:] if "call.changed" in line]
    for part in (f"caller={me}", f'peer="uid={os.getuid()},pid={os.getpid()}"', "verb=DELETE", "path=/2/jobs/4711"):
        assert part in line, line
    assert "status=" in line


def test_browsers_and_proxies_take_replies_for_what_they_are_and_keep_none(web: Web) -> None:
    for path in ("/3", "/3/jobs", "/3/queue", "/3/health", "/3/nothing", "/3/jobs/99999", "/metrics"):
        headers = web.local.get(path).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store"), path
    assert web.local.post("/3/jobs", content=b"{").headers["cache-control"] == "no-store"
    # it says by itself how long it may be kept
    assert web.local.get("/3/openapi.json").headers.get_list("cache-control") == ["no-cache"]
    assert web.local.get("/3/openapi.json").headers.get_list("x-content-type-options") == ["nosniff"]


@pytest.mark.parametrize("given", ["nightly-7", "0e3c1f5a-7c1e-4d1a-9b53-0f2a4f0d9c11", "a.b_c~d:/+=@", "x" * 128])
def test_the_id_that_a_client_gives_a_request_is_in_the_reply_and_in_the_log(web: Web, given: str) -> None:
    before = len(web.log().splitlines())

    reply = web.local.delete("/2/jobs/4711", headers={"X-Request-Id": given})

    assert reply.headers.get_list("x-request-id") == [given]
    (line,) = [line for line in web.log().splitlines()[before:] if "call.changed" in line]
    assert f"request={given}" in line.replace('"', "")


@pytest.mark.parametrize(
    "given", [[], [""], ["two words"], ["a\tb"], ["x" * 129], ["caf\xe9"], ['say"no"'], ["a", "b"]]
)
def test_a_request_without_a_well_formed_id_gets_one(web: Web, given: list[str]) -> None:
    headers = [(b"X-Request-Id", each.encode("latin-1")) for each in given]

    ids = [web.local.get("/3/health", headers=headers).headers["x-request-id"] for _ in range(2)]

    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in ids)
    assert ids[0] != ids[1]


def test_each_kind_of_reply_has_an_id(web: Web) -> None:
    refused = [web.local.post("/3/jobs", content=b"{"), web.local.get("/3/nothing"), web.local.delete("/3/health")]
    replies = [*refused, *map(web.local.get, ("/", "/2/jobs", "/2/nothing", "/metrics", "/ui/login", "/3/docs"))]
    with web.local.stream("GET", "/3/events") as stream:
        replies.append(stream)

    assert all(len(reply.headers.get_list("x-request-id")) == 1 for reply in replies)


def test_a_large_reply_is_compressed_for_who_takes_that(web: Web) -> None:
    client = web.remote(token=token_of(web))
    plain = {"Accept-Encoding": "identity"}

    for path in ("/3/openapi.json", "/metrics", "/3"):
        whole, compressed, head = client.get(path, headers=plain), client.get(path), client.head(path)

        assert "content-encoding" not in whole.headers
        assert compressed.headers["content-encoding"] == head.headers["content-encoding"] == "gzip"
        assert compressed.headers["vary"] == whole.headers["vary"] == "Accept-Encoding"
        assert int(compressed.headers["content-length"]) < len(whole.content) / 2
        if path != "/metrics":
            assert compressed.content == whole.content
            assert head.headers["content-length"] == compressed.headers["content-length"]


def test_a_compressed_document_is_known_again(web: Web) -> None:
    client = web.remote(token=token_of(web))
    tag = client.get("/3/openapi.json").headers["etag"]

    assert client.get("/3/openapi.json", headers={"If-None-Match": tag}).status_code == 304


def test_neither_streams_nor_small_replies_nor_those_over_the_socket_are_compressed(web: Web) -> None:
    client = web.remote(token=token_of(web))
    with client.stream("GET", "/3/events") as stream:
        assert "content-encoding" not in stream.headers

    assert "content-encoding" not in client.get("/3/queue").headers
    assert "content-encoding" not in web.local.get("/3/openapi.json").headers


def token_of(web: Web) -> str:
    name = f"reader-{secrets.token_hex(4)}"
    return str(TokensFile(web.paths).create(NewToken(name, ("admin",), None, OWN_LOGIN), time.time())[1])
