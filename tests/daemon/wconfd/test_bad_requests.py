"""What is no request, or a wrong one: a clear error, and the daemon lives on (wconfd.md 1.5)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]
ME = [1, "/run/livelocks/job_000001"]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
@pytest.mark.parametrize(
    ("method", "args", "message"),
    [
        ("noSuch", [], "unknown method 'noSuch'"),
        ("ListLocks", [ME], "unknown method 'ListLocks'"),
        ("listLocks", [], "listLocks lacks owner; its arguments are owner"),
        ("listAllLocks", [1], r"listAllLocks takes at most 0 arguments \(\), got 1"),
        ("tryUpdateLocks", [ME], "tryUpdateLocks lacks requests; its arguments are owner, requests"),
        ("tryUpdateLocks", [ME, "x"], r"expected a list, got 'x' @ \$.requests"),
        ("tryUpdateLocks", [ME, [["node/a"]]], r"a lock request is \[lock, mode\].*got \['node/a'\]"),
        ("tryUpdateLocks", [ME, [["nosuch/a", "shared"]]], "unknown lock level 'nosuch'; levels are cluster, instance"),
        ("tryUpdateLocks", [ME, [["BGL", "shared"]]], "lock name 'BGL' has no level; write it as 'node/NAME'"),
        ("tryUpdateLocks", [ME, [["cluster/x", "shared"]]], "no cluster lock is named 'cluster/x'"),
        ("tryUpdateLocks", [ME, [["node/a", "both"]]], "unknown lock mode 'both'; modes are shared and exclusive"),
        ("tryUpdateLocks", ["x", []], r"an owner is \[job id or name, livelock path, optional pid\]; got 'x'"),
        ("tryUpdateLocks", [[1.5, "/x"], []], "an owner's id is a job number >= 0 or a name; got 1.5"),
        ("tryUpdateLocks", [[-1, "/x"], []], "an owner's id is a job number >= 0 or a name; got -1"),
        ("updateLocksWaiting", [ME, "high", []], r"expected int, got 'high' @ \$.priority"),
        ("waitLocks", [ME, None], r"expected number, got None @ \$.timeout"),
        ("freeLocksLevel", [ME, 5], "unknown lock level 5; levels are"),
        ("guardedOpportunisticLockUnion", [ME, 1, []], r"expected int, got .* @ \$.count"),
        ("opportunisticLockUnion", [ME, [["node/a", "release"]]], "release"),
        ("echo", [5], r"expected string, got 5 @ \$.text"),
        ("lockConfig", [ME, 1], r"expected true or false, got 1 @ \$.shared"),
        ("writeConfig", [ME, 5], r"expected an object, got 5 @ \$.config"),
    ],
)
def test_a_wrong_call_is_refused_with_what_is_wrong_and_the_connection_goes_on(
    cluster: Cluster, connect: Callable[[str], Wire], dialect: str, method: str, args: Any, message: str
) -> None:
    call = connect(dialect)

    with pytest.raises(Refused, match=message):
        call(method, *args)

    assert call("listLocksWaitingStatus") == [[], []]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b'{"method": "echo", "args": [', "request is not JSON"),
        (b"", "request is not JSON"),
        (b"[]", "empty batch"),
        (b"5", "request is not an object but 5"),
        (b'{"args": []}', "request has no key 'method'"),
        (b'{"method": "listAllLocks"}', "request has no key 'args'"),
        (b'{"method": 5, "args": []}', "key 'method' must be a string, got 5"),
        (b'{"method": "echo", "args": ["' + b"[" * 5000 + b'"}', "request is not JSON"),
        (b"[" * 200_000, "the JSON is nested deeper than 128 levels"),
    ],
)
def test_what_is_no_request_gets_a_plain_text_and_others_are_not_hurt(
    call: Wire, connect: Callable[[], Wire], payload: bytes, message: str
) -> None:
    bad = connect()

    bad.send_bytes(payload + b"\x03")
    reply = bad.reply()

    assert "error" in reply or reply["success"] is False
    # some are answered as Ganeti does, with the text alone or with the class of the error, others as JSON-RPC does
    assert message in str(reply.get("result") or reply["error"]["message"])
    assert call("echo", "alive") == "alive"


def test_a_message_of_a_hundred_megabytes_is_refused_and_others_are_not_hurt(
    call: Wire, connect: Callable[[], Wire]
) -> None:
    bad = connect()
    megabyte = b"x" * 2**20

    bad.send_bytes(b'{"method": "echo", "args": ["')
    for _ in range(100):
        bad.send_bytes(megabyte)
    bad.send_bytes(b'"]}\x03')

    with pytest.raises(Refused, match="a message of more than 67108864 bytes"):
        bad.result()
    with pytest.raises(EOFError):
        bad.reply()
    assert call("echo", "alive") == "alive"


def test_a_connection_that_breaks_in_the_middle_of_a_message_hurts_nobody(
    call: Wire, connect: Callable[[], Wire], job: Job
) -> None:
    bad = connect()
    bad.send_bytes(b'{"method": "tryUpdateLocks", "args": [')
    bad.close()
    gone = connect()
    gone.send("tryUpdateLocks", job(1), [["node/a", "shared"]])
    gone.close()

    assert call("tryUpdateLocks", job(2), [["node/b", "shared"]]) == []
