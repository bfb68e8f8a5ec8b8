"""Bad messages on both sockets: a clear error each, and the next caller is served (DESIGN section 4).

Each error names the matter; no message, however bad, makes a daemon log a defect.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from protocol.framing import MAX_MESSAGE
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import Echo
from tests.support.checked import checked_cluster
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.sockets.rawsocket import RawCaller

DAEMONS = ("luxid", "wconfd")
DEEP = 100_000
OWNER = '["tester","/nowhere/at/all"]'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests here: each proves that the one before it has done no harm."""
    with checked_cluster(tmp_path_factory.mktemp("misuse") / "root") as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(params=DAEMONS)
def daemon(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """A daemon's name; afterwards it is the same process, and serves a well-behaved caller."""
    name = str(request.param)
    yield name
    assert_serves(cluster, name)


def assert_serves(cluster: Cluster, name: str) -> None:
    assert cluster.daemons[name].poll() is None, f"{name} ended: {cluster.log(name)[-2000:]}"
    if name == "luxid":
        cluster.luxi(QueryJobs(None, ("id",)))
    else:
        assert cluster.wconf(Echo("still here")) == "still here"


def socket_of(cluster: Cluster, daemon: str) -> Path:
    return cluster.paths.query_socket if daemon == "luxid" else cluster.paths.wconfd_socket


def error_of(answer: bytes | None) -> str:
    """The text of an error reply in Ganeti's dialect."""
    assert answer is not None, "closed without an answer"
    reply = orjson.loads(answer)
    assert reply["success"] is False
    return str(reply["result"])


@pytest.mark.parametrize(
    ("payload", "matter"),
    [
        (b"", "empty"),
        (b"   ", "JSON"),
        (b'{"method": "echo", "args": [', "JSON"),
        (b"{'method': 'echo'}", "JSON"),
        (b"nonsense", "JSON"),
        (b"\x00\x01\x02\xff\xfe\x80" * 100, "JSON"),
        (b'{"method": "echo", "args": [NaN]}', "JSON"),
        (b"[" * DEEP + b"]" * DEEP, "JSON"),
        (b'{"method": "echo", "args": ' + b"[" * DEEP + b"]" * DEEP + b"}", "JSON"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "JSON"),
        (b"null", "object"),
        (b"17", "object"),
        (b'"echo"', "object"),
        (b"{}", "method"),
        (b'{"method": "echo"}', "args"),
        (b'{"args": []}', "method"),
        (b'{"method": 5, "args": []}', "method"),
        (b'{"method": null, "args": []}', "method"),
        (b'{"method": "echo", "args": {"text": "a"}}', "args"),
        (b'{"method": "echo", "args": "a"}', "args"),
        (b'{"method": "noSuchMethod", "args": []}', "noSuchMethod"),
        (b'{"method": "__init__", "args": []}', "__init__"),
    ],
)
def test_a_message_that_is_no_call_is_refused_by_name(
    cluster: Cluster, daemon: str, payload: bytes, matter: str
) -> None:
    with RawCaller(socket_of(cluster, daemon)) as caller:
        text = error_of(caller.ask(payload))

    assert matter.lower() in text.lower()
    assert len(text) < 500


@pytest.mark.parametrize(
    ("method", "args", "matter"),
    [
        ("SubmitJob", "[]", "SubmitJob"),
        ("SubmitJob", "[5]", "job"),
        ("SubmitJob", '[["OP_TEST_DUMMY"]]', "job"),
        ("SubmitJob", "[[], []]", "SubmitJob"),
        ("SubmitJob", "[[]]", "at least one opcode"),
        ("SubmitJob", "[[{}]]", "OP_ID"),
        ("SubmitJob", '[[{"OP_ID": "OP_NO_SUCH_THING"}]]', "OP_NO_SUCH_THING"),
        ("SubmitJob", '[[{"OP_ID": 7}]]', "OP_ID"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "surprise": 1}]]', "surprise"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND"}]]', "argv"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": "ls"}]]', "argv"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": []}]]', "argv"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["a\\u0000b"]}]]', "argv"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["ls"], "timeout": -1}]]', "timeout"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["ls"], "locks": {"planet/x": "shared"}}]]', "planet"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["ls"], "locks": {"node/x": "mine"}}]]', "mine"),
        ("SubmitJob", '[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["ls"], "locks": ["node/x"]}]]', "locks"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "priority": 999}]]', "999"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "priority": "high"}]]', "priority"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "depends": 5}]]', "depend"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "depends": [[-1, ["success"]]]}]]', "-1"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "depends": [[987654321, ["success"]]]}]]', "987654321"),
        ("SubmitJob", '[[{"OP_ID": "OP_TEST_DUMMY", "comment": "\\ud800"}]]', "JSON"),
        ("SubmitManyJobs", '["all of them"]', "SubmitManyJobs"),
        ("CancelJob", '["first"]', "first"),
        ("CancelJob", "[1, 2, 3, 4]", "CancelJob"),
        ("ChangeJobPriority", '[1, "x"]', "ChangeJobPriority"),
        ("QueryJobs", '[null, ["no_such_field"]]', "no_such_field"),
        ("QueryJobs", '[["x"], ["id"]]', "x"),
        ("WaitForJobChange", '[1, ["status"], null, null, "soon"]', "soon"),
        ("ArchiveJob", "[1.5]", "1.5"),
    ],
)
def test_luxid_names_what_is_wrong_with_the_arguments(cluster: Cluster, method: str, args: str, matter: str) -> None:
    stored = sorted(cluster.paths.queue.glob("job-*"))

    with RawCaller(cluster.paths.query_socket) as caller:
        text = error_of(caller.ask(f'{{"method": "{method}", "args": {args}}}'.encode()))

    assert matter in text
    assert sorted(cluster.paths.queue.glob("job-*")) == stored
    assert_serves(cluster, "luxid")


@pytest.mark.parametrize(
    ("method", "args", "matter"),
    [
        ("echo", "[]", "echo"),
        ("echo", "[1]", "echo"),
        ("listLocks", '["me"]', "owner"),
        ("listLocks", '[["me"]]', "owner"),
        ("listLocks", '[[-4, "/x"]]', "owner"),
        ("listLocks", '[[true, "/x"]]', "owner"),
        ("tryUpdateLocks", f'[{OWNER}, [["planet/x", "shared"]]]', "planet"),
        ("tryUpdateLocks", f'[{OWNER}, [["node", "shared"]]]', "level"),
        ("tryUpdateLocks", f'[{OWNER}, [["node/a", "mine"]]]', "mine"),
        ("tryUpdateLocks", f'[{OWNER}, [["node/a"]]]', "lock request"),
        ("tryUpdateLocks", f'[{OWNER}, ["node/a"]]', "lock request"),
        ("tryUpdateLocks", f"[{OWNER}, 5]", "tryUpdateLocks"),
        ("tryUpdateLocks", f'[{OWNER}, [["cluster/XYZ", "shared"]]]', "cluster/XYZ"),
        ("updateLocksWaiting", f'[{OWNER}, "high", []]', "high"),
        ("updateLocksWaiting", f"[{OWNER}, 0]", "updateLocksWaiting"),
        ("freeLocksLevel", f'[{OWNER}, "planet"]', "planet"),
        ("downGradeLocksLevel", f"[{OWNER}, 3]", "3"),
        ("intersectLocks", f"[{OWNER}, [5]]", "5"),
        ("waitLocks", f'[{OWNER}, "long"]', "long"),
        ("lockConfig", f'[{OWNER}, "yes"]', "yes"),
        ("writeConfig", f"[{OWNER}, 5]", "writeConfig"),
    ],
)
def test_wconfd_names_what_is_wrong_with_the_arguments(cluster: Cluster, method: str, args: str, matter: str) -> None:
    with RawCaller(cluster.paths.wconfd_socket) as caller:
        text = error_of(caller.ask(f'{{"method": "{method}", "args": {args}}}'.encode()))

    assert matter in text
    assert durable_locks(cluster.paths.locks_data) == b"[[],[]]"
    assert_serves(cluster, "wconfd")


@pytest.mark.parametrize(
    "nested", ['{"env": %s}', '{"comment": %s}', '{"reason": %s}', '{"depends": %s}', '{"locks": %s}']
)
@pytest.mark.parametrize("levels", [500, 900])
def test_deep_nesting_inside_an_opcode_is_refused(cluster: Cluster, nested: str, levels: int) -> None:
    # the latter is about as deep as the JSON parser takes it
    field = nested % ("[" * levels + "]" * levels)
    op = '{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], ' + field[1:]

    with RawCaller(cluster.paths.query_socket) as caller:
        text = error_of(caller.ask(f'{{"method": "SubmitJob", "args": [[{op}]]}}'.encode()))

    assert "nested deeper than 128 levels" in text
    assert_serves(cluster, "luxid")


def assert_too_deep(answer: bytes | None) -> None:
    """The connection is still of use after it."""
    assert "nested deeper than 128 levels" in error_of(answer)
    assert orjson.loads(answer or b"")["error"]["code"] == "invalid"


@pytest.mark.parametrize("levels", [110, 500, 900])
@pytest.mark.parametrize("opening", ["[", '{"a": '])
@pytest.mark.parametrize("field", ["OP_TEST_DUMMY.result", "OP_TEST_DUMMY.messages", "OP_TEST_DUMMY.comment"])
def test_a_deep_value_is_kept_or_refused_and_never_an_internal_error(
    cluster: Cluster, field: str, opening: str, levels: int
) -> None:
    name, _, key = field.partition(".")
    value = opening * levels + "1" + ("]" if opening == "[" else "}") * levels
    op = f'{{"OP_ID": "{name}", "result": null, "messages": null, "fail": null, "{key}": {value}}}'
    calls = [
        ("SubmitJob", f"[[{op}]]"),
        ("SubmitManyJobs", f"[[[{op}]]]"),
        ("QueryJobs", f"[null, {value}]"),
        ("Query", f'["job", ["id"], {value}]'),
        ("SetDrainFlag", f"[{value}]"),
        ("ReplaceFilter", f'[null, 1, [["jobid", {value}]], "ACCEPT", []]'),
    ]

    is_refused = levels > 128
    with RawCaller(cluster.paths.query_socket) as caller:
        for method, args in calls:
            asked = f'{{"jsonrpc": "2.0", "id": 5, "method": "{method}", "params": {args}}}'
            ours = orjson.loads(caller.ask(asked.encode()) or b"")
            assert ours["id"] == 5
            assert ours.get("error", {"code": 0})["code"] in ((-32602,) if is_refused else (0, -32602)), ours
            if is_refused:
                assert_too_deep(caller.ask(f'{{"method": "{method}", "args": {args}}}'.encode()))
    with RawCaller(cluster.paths.wconfd_socket) as caller:
        for method in ("echo", "updateLocksWaiting", "listLocks"):
            answer = caller.ask(f'{{"method": "{method}", "args": [{value}]}}'.encode())
            if is_refused:
                assert_too_deep(answer)
            assert b"nternal" not in (answer or b"")
    assert "Traceback" not in cluster.log("luxid") + cluster.log("wconfd")


def test_a_message_of_100_mb_is_refused_with_the_limit(cluster: Cluster, daemon: str) -> None:
    with RawCaller(socket_of(cluster, daemon)) as caller:
        caller.send(b'{"method": "echo", "args": ["' + b"a" * 100_000_000 + b'"]}\x03')
        text = error_of(caller.receive())

    assert str(MAX_MESSAGE) in text
    assert "send it in parts" in text


def test_a_large_message_within_the_limit_is_answered(cluster: Cluster) -> None:
    text = "a" * 20_000_000

    assert cluster.wconf(Echo(text)) == text


@pytest.mark.parametrize(
    "message",
    [
        '{"jsonrpc": "2.0", "method": "noSuchMethod", "id": 7}',
        '{"jsonrpc": "2.0", "method": "echo", "params": 5, "id": 7}',
        '{"jsonrpc": "2.0", "id": 7}',
        '{"jsonrpc": "1.0", "method": "echo", "id": 7}',
        '{"jsonrpc": "2.0", "method": "echo", "params": [], "id": {"a": 1}}',
        "[]",
        "[1, 2]",
    ],
)
def test_json_rpc_callers_get_errors_of_their_dialect(cluster: Cluster, daemon: str, message: str) -> None:
    with RawCaller(socket_of(cluster, daemon)) as caller:
        answer = caller.ask(message.encode())
        assert answer is not None
        again = caller.ask(b'{"jsonrpc": "2.0", "method": "noSuchMethod", "id": 8}')

    for reply in [each for part in (answer, again) for each in _replies(part)]:
        assert reply["jsonrpc"] == "2.0"
        assert reply["error"]["code"] < 0
        assert reply["error"]["message"]


def _replies(payload: bytes | None) -> list[Any]:
    assert payload is not None
    value = orjson.loads(payload)
    return value if isinstance(value, list) else [value]
