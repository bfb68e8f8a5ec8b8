"""No message, of any structure, causes an internal error, and the daemon survives (issue 9, 3.9).

Every method of both daemons is called with arguments made for its types, with some of them replaced by what nobody
should send. Calls travel in batches, so that thousands take seconds.
"""

import enum
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

import attrs
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import protocol.luxi
import protocol.wconfd
from common.ids import JobId
from common.locks import Lock, LockLevel, LockRequest, Owner
from common.opcodes.registry import opcode_classes
from common.query.qlang import Expression
from common.queue.reasons import ReasonEntry
from protocol.face import requests_of
from protocol.luxi.jobs import JobInput, OpInput
from protocol.messages import Request
from tests.support.cluster import Cluster
from tests.support.sockets.rawsocket import RawCaller

BAD_TEXTS = ["", "\0", "a\0b", "é�", "-1", "[lockset]", "x" * 5000, "9" * 4301, "job", "../../etc/passwd"]
BAD_NUMBERS = [-1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1e308, -1e308, 0.5, 1e-308]
TEXTS = st.sampled_from(["node1.test", "a", "success", "id", "name", "watermark", "gnt:user", *BAD_TEXTS])
NUMBERS = st.sampled_from([3, 7, *BAD_NUMBERS])
JUNK: st.SearchStrategy[Any] = st.recursive(
    TEXTS | NUMBERS | st.sampled_from([None, True, False, {}, [], [[]], [{}], {"": None}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=6,
)
FIELDS = st.sampled_from(["id", "status", "name", "ops", "summary", "mfree", "OP_ID", "timestamp", "nosuch", ""])
EXPRESSIONS = st.recursive(
    st.none()
    | st.builds(
        lambda *parts: [*parts],
        st.sampled_from(["==", "=", "!=", "<", ">", "<=", ">=", "=~", "=[]"]),
        FIELDS,
        TEXTS | NUMBERS | JUNK,
    )
    | st.builds(lambda field: ["?", field], FIELDS),
    lambda inner: st.builds(lambda word, parts: [word, *parts], st.sampled_from("&|!"), st.lists(inner, max_size=3)),
    max_leaves=5,
)
LOCKS = st.sampled_from(["node/a", "node/[lockset]", "cluster/BGL", "cluster/config", "instance/\x1b[2J", "node/", "x"])
LOCKS |= st.builds("node-res/{}".format, TEXTS)
MODES = st.sampled_from(["shared", "exclusive", "release", "other"])
LIVELOCKS = st.sampled_from(["/nowhere/lock", "", "\0", "relative", "/" + "x" * 5000, "/dev/null", "/"])
OWNERS = st.builds(lambda *parts: [*parts], NUMBERS | TEXTS, LIVELOCKS) | st.builds(
    lambda *parts: [*parts], NUMBERS | TEXTS, LIVELOCKS, NUMBERS
)
PREDICATES = st.lists(
    st.builds(lambda *parts: [*parts], st.sampled_from(["jobid", "opcode", "reason", "x"]), EXPRESSIONS | JUNK),
    max_size=2,
)
ACTIONS = st.sampled_from(["CONTINUE", ["RATE_LIMIT", 3], ["RATE_LIMIT", 0], ["RATE_LIMIT", 1e308], "x", {}])
# by the names of arguments whose type says too little; waits are short
BY_NAME: Mapping[str, st.SearchStrategy[Any]] = {
    "timeout": st.sampled_from([0, 0.001, -1, -1e308, "1", None]),
    "predicates": PREDICATES,
    # nothing that keeps the jobs of later calls from being taken
    "action": ACTIONS,
    "reason_trail": st.lists(st.builds(lambda *parts: [*parts], TEXTS, TEXTS, NUMBERS), max_size=2),
    "previous_serial": NUMBERS | st.none(),
}


def _opcodes() -> st.SearchStrategy[Any]:
    def of(kind: Any) -> st.SearchStrategy[Any]:
        names = [field.name for field in attrs.fields(kind)]
        values = st.dictionaries(st.sampled_from(names), TEXTS | NUMBERS | JUNK, max_size=4)
        return values.map(lambda given: {"OP_ID": kind.OP_ID, **given})

    return st.sampled_from(list(opcode_classes().values())).flatmap(of) | st.builds(
        lambda given: {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], **given},
        st.fixed_dictionaries(
            {},
            optional={
                "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
                "user": TEXTS,
                "cwd": TEXTS,
                "timeout": NUMBERS,
                "exit_codes": st.lists(NUMBERS, max_size=2),
                "locks": st.dictionaries(LOCKS, MODES, max_size=2),
                "depends": st.lists(st.tuples(NUMBERS | TEXTS, st.lists(TEXTS, max_size=2)).map(list), max_size=2),
                "reason": JUNK,
            },
        ),
    )


OPCODES = _opcodes()


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values on the wire that are made for a type, mostly."""
    simple = {
        int: NUMBERS,
        float: NUMBERS,
        str: TEXTS,
        bool: st.booleans(),
        JobId: NUMBERS | st.sampled_from(["1", "007"]),
        Lock: LOCKS,
        Owner: OWNERS,
        LockLevel: st.sampled_from(["node", "instance", "nowhere"]),
        Expression: EXPRESSIONS,
        LockRequest: st.tuples(LOCKS, MODES).map(list),
        ReasonEntry: st.tuples(TEXTS, TEXTS, NUMBERS).map(list),
        OpInput: OPCODES,
        JobInput: st.lists(OPCODES, max_size=2),
        Any: JUNK,
    }
    try:
        if kind in simple:
            return simple[kind]
    except TypeError:
        return JUNK
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from([each.value for each in kind])
    arguments, origin = get_args(kind), get_origin(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([st.none() if each is type(None) else of_type(each) for each in arguments])
    if origin is tuple and arguments and arguments[-1] is Ellipsis:
        return st.lists(of_type(arguments[0]), max_size=3)
    if origin is tuple:
        return st.tuples(*map(of_type, arguments)).map(list)
    return JUNK


def calls_of(kind: type[Request[Any]]) -> st.SearchStrategy[tuple[str, list[Any]]]:
    fields = attrs.fields(kind)  # type: ignore[arg-type]  # all are attrs classes
    made = [BY_NAME[field.name] if field.name in BY_NAME else of_type(field.type) for field in fields]
    mixed = [each if field.name == "timeout" else each | JUNK for each, field in zip(made, fields, strict=True)]
    arguments = st.one_of(st.tuples(*made), st.tuples(*made), st.tuples(*mixed)).map(list)
    return arguments.map(lambda given: (kind.METHOD, given))


METHODS = {
    "luxid": requests_of(protocol.luxi),
    "wconfd": requests_of(protocol.wconfd),
}
# it holds the configuration, for which others then wait
LEFT_OUT = {"luxid": {"SetDrainFlag"}, "wconfd": {"lockConfig"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Without a fork server: what is taken stays queued."""
    with Cluster(tmp_path_factory.mktemp("fuzz") / "root") as cluster:
        cluster.start("wconfd", "luxid")
        yield cluster


@pytest.mark.parametrize("daemon", sorted(METHODS))
def test_no_message_is_an_internal_error_and_the_daemon_lives(cluster: Cluster, daemon: str) -> None:
    path = cluster.paths.query_socket if daemon == "luxid" else cluster.paths.wconfd_socket
    asked = [calls_of(kind) for kind in METHODS[daemon] if kind.METHOD not in LEFT_OUT[daemon]]
    assert len(asked) > 20

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.tuples(*asked))
    def ask(calls: tuple[tuple[str, list[Any]], ...]) -> None:
        batch = [
            {"jsonrpc": "2.0", "id": place, "method": method, "params": given}
            for place, (method, given) in enumerate(calls)
        ]
        with RawCaller(path) as caller:
            answer = caller.ask(orjson.dumps(batch))
        assert answer is not None
        for reply in orjson.loads(answer):
            if "error" in reply:
                assert reply["error"]["data"]["code"] != "internal", (calls[reply["id"]], reply["error"])

    ask()

    assert cluster.daemons[daemon].poll() is None


EXACTLY = [
    ("luxid", "ReplaceFilter", [None, 0, [["jobid", {}]], "PAUSE", []]),
    ("luxid", "ReplaceFilter", [None, 1e308, [], "PAUSE", []]),
    ("luxid", "CancelJob", [1e308]),
    ("luxid", "QueryJobs", [[1e308, "9" * 5000], ["id"]]),
    ("luxid", "Query", ["job", ["id"], ["==", "id", 1e308]]),
    ("luxid", "WaitForJobChange", [2**64 - 1, ["status"], None, None, 1]),
    ("luxid", "AutoArchiveJobs", [1e300, 1]),
    ("luxid", "SetWatcherPause", [1e308]),
    ("luxid", "ReadJobOutput", [1e308, 0, 0]),
    ("wconfd", "tryUpdateLocks", [["x", "/y"], [["node/\x1b[2J", "shared"]]]),
    ("wconfd", "tryUpdateLocks", [["x", "/y"], [["node/" + "a" * 256, "shared"]]]),
]


@pytest.mark.parametrize(("daemon", "method", "arguments"), EXACTLY)
def test_messages_that_were_internal_errors_or_went_through_are_refused(
    cluster: Cluster, daemon: str, method: str, arguments: list[Any]
) -> None:
    path = cluster.paths.query_socket if daemon == "luxid" else cluster.paths.wconfd_socket
    with RawCaller(path) as caller:
        answer = caller.ask(orjson.dumps({"method": method, "args": arguments}))

    assert answer is not None
    reply = orjson.loads(answer)
    assert reply["success"] is False
    assert "internal error" not in str(reply["result"])
