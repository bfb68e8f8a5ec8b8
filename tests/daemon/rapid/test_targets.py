"""What a request asks for, and of which host, by hand. Source: RFC 9112, sections 3.2 and 3.3."""

from collections.abc import Iterator

import pytest

from tests.support.web.rapid import Web
from tests.support.web.rawhttp import ask, get, over_socket, over_tls, read_reply


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("targets")) as web:
        web.start("rapid")
        yield web
    assert "Traceback" not in web.log()


def request(line: str, *headers: str) -> bytes:
    return "\r\n".join((line, *headers, "", "")).encode("latin-1")


def asked(web: Web, line: str, *headers: str) -> int:
    return ask(web, request(line, *headers)).status


@pytest.mark.parametrize("address", ["http://gantry.example:5080", "HTTPS://gantry.example", "http://[::1]:5080"])
def test_a_whole_address_is_answered_as_its_path(web: Web, address: str) -> None:
    for path in ("/3", "/2/info/", "/3/nothing?x=1", "/2/nothing"):
        plain = ask(web, get(path))

        whole = ask(web, request(f"GET {address}{path} HTTP/1.1", "Host: x"))

        assert (whole.status, whole.body) == (plain.status, plain.body)


def test_an_address_without_a_path_is_the_front(web: Web) -> None:
    assert ask(web, request("GET http://gantry.example HTTP/1.1", "Host: x")).json is None


def test_the_host_of_the_address_counts_and_the_header_does_not(web: Web) -> None:
    """A browser tells the page's host as `Origin`: another host than the one asked for is another site."""
    line = "POST http://mine.example/3/queue/nothing HTTP/1.1"
    drain = line.replace("nothing", "drain")

    own = ask(web, request(drain, "Host: evil.example", "Origin: http://mine.example"))
    foreign = ask(web, request(drain, "Host: evil.example", "Origin: http://evil.example"))

    # there is no luxid behind it
    assert own.status == 503
    assert (foreign.status, foreign.json["detail"]) == (
        403,
        "another site made a browser send this, so nothing was done",
    )
    assert asked(web, line, "Host: evil.example") == 404


def test_options_of_the_whole_server_tell_its_methods_to_anybody(web: Web) -> None:
    for line in ("OPTIONS * HTTP/1.1", "OPTIONS http://x HTTP/1.1"):
        with over_tls(web) as sock:
            sock.sendall(request(line, "Host: x"))
            reply = read_reply(sock, "OPTIONS")

        assert (reply.status, reply.body) == (204, b"")
        assert reply.headers["allow"] == "DELETE, GET, HEAD, PATCH, POST, PUT"
    body = request("OPTIONS * HTTP/1.1", "Host: x", "Content-Length: 2") + b"{}"
    assert ask(web, body + get("/3")).status == 204


@pytest.mark.parametrize(
    "target",
    [
        *("*", "3/jobs", "gantry.example:5080", "/3#jobs", "/3/%zz", "http:///3", "ftp://x/3", "http://u@x/3"),
        *("http://x:port/3", "http://x:99999/3", "http://[::/3", "/%ff"),
    ],
)
def test_another_form_is_refused_and_others_are_served(web: Web, target: str) -> None:
    with over_socket(web) as sock:
        sock.sendall(request(f"GET {target} HTTP/1.1", "Host: x"))
        reply = read_reply(sock)

    assert (reply.status, reply.json["code"], reply.is_closed) == (400, 400, True)
    assert ask(web, get("/3")).status == 200


def test_rapid_is_no_proxy(web: Web) -> None:
    reply = ask(web, request("CONNECT gantry.example:5080 HTTP/1.1", "Host: gantry.example:5080"))

    assert (reply.status, reply.json["code"], reply.is_closed) == (501, 501, True)


@pytest.mark.parametrize("host", ["a b", "http://x", "u@x", "x/y", "x:port", "x:99999", "[::1", "::1", "caf\xe9"])
def test_a_wrong_host_is_refused(web: Web, host: str) -> None:
    assert asked(web, "GET /3 HTTP/1.1", f"Host: {host}") == 400
    assert asked(web, "GET http://x/3 HTTP/1.1", f"Host: {host}") == 400


def test_a_host_is_said_once_and_only_old_clients_say_none(web: Web) -> None:
    assert asked(web, "GET /3 HTTP/1.1", "Host: x", "Host: x") == 400
    assert asked(web, "GET /3 HTTP/1.1") == 400
    assert asked(web, "GET http://x/3 HTTP/1.1") == 400
    assert asked(web, "GET /3 HTTP/1.0", "Host: x", "Host: x") == 400
    assert asked(web, "GET /3 HTTP/1.0") == 200
    for host in ("", "x", "x:", "[::1]:5080", "node_1.example"):
        assert asked(web, "GET /3 HTTP/1.1", f"Host: {host}") == 200
