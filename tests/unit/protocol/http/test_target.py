"""Targets of requests, and hosts. Source: RFC 9112, 3.2 and 3.3."""

import pytest

from protocol.http.target import BadTarget, RequestTarget, check_hosts, read_target


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (b"/", RequestTarget(b"/", b"")),
        (b"/3/jobs?limit=2", RequestTarget(b"/3/jobs", b"limit=2")),
        (b"/3/jobs?where=http://x/?y", RequestTarget(b"/3/jobs", b"where=http://x/?y")),
        # clients send such characters, though they should be escaped
        (b"/3/jobs?filter=id>3", RequestTarget(b"/3/jobs", b"filter=id>3")),
        (b"//3/jobs", RequestTarget(b"//3/jobs", b"")),
        (b"/http://x", RequestTarget(b"/http://x", b"")),
        (b"http://x/3/jobs?limit=2", RequestTarget(b"/3/jobs", b"limit=2", b"x")),
        (b"HTTPS://X.example:5080/3", RequestTarget(b"/3", b"", b"X.example:5080")),
        (b"http://x", RequestTarget(b"/", b"", b"x")),
        (b"http://x?a=/b", RequestTarget(b"/", b"a=/b", b"x")),
        (b"http://[::1]:80/3", RequestTarget(b"/3", b"", b"[::1]:80")),
    ],
)
def test_a_target_is_a_path_or_a_whole_address(target: bytes, found: RequestTarget) -> None:
    assert read_target(b"GET", target) == found


@pytest.mark.parametrize("target", [b"*", b"http://x"])
def test_options_may_ask_for_the_server_as_a_whole(target: bytes) -> None:
    assert read_target(b"OPTIONS", target).path == b"*"
    assert read_target(b"OPTIONS", b"http://x/").path == b"/"


@pytest.mark.parametrize(
    "target",
    [
        *(b"", b"*", b"3/jobs", b"x:80", b"**", b"/3#part", b"/3?a#b", b"/%", b"/%2", b"/%zz"),
        *(b"http:///3/jobs", b"http:/3", b"http://", b"http://?x", b"ftp://x/3", b"mailto:a@b", b"http://a@x/3"),
        *(b"http://x:y/3", b"http://x:70000/3", b"http://[::1/3", b"http://[zz]/3", b"http://a b/3", b"http://x/%"),
    ],
)
def test_another_target_is_refused(target: bytes) -> None:
    with pytest.raises(BadTarget):
        read_target(b"GET", target)


@pytest.mark.parametrize(
    "host",
    [b"", b"x", b"x:", b"x:5080", b"node_1.example", b"192.0.2.1:80", b"[::1]", b"[2001:db8::1]:443", b"a%41", b"x!"],
)
def test_a_host_is_a_name_or_an_address_with_or_without_a_port(host: bytes) -> None:
    check_hosts([host])


@pytest.mark.parametrize(
    "host",
    [
        *(b"a b", b"a/b", b"http://x", b"u@x", b"x:y", b"x:123456", b"x:65536", b"x:1:2", b"::1", b"[::1", b"::1]"),
        *(b"[1]", b"[::g]", b"a%", b"a?b", b"a#b", b"a\\b", b'"x"', b"<x>", "caf\xe9".encode("latin-1"), b"x,y z"),
    ],
)
def test_another_host_is_refused(host: bytes) -> None:
    with pytest.raises(BadTarget):
        check_hosts([b"x", host])
