"""Recorded queries of a real Ganeti, sent to a luxid with the same jobs and the same configuration.

Answers must be the same, but for what is named here: texts (docs of fields, wording of errors), UUIDs and
times (the recorded configuration is of a cluster made anew), and what only a node daemon knows.
"""

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from common.queue.jobfile import encode_job
from tests.support.cluster import Cluster
from tests.support.configs import recorded_json
from tests.support.recordings import recorded_exchanges, recorded_jobs
from tests.support.sockets.rawsocket import RawCaller

EXCHANGES = recorded_exchanges("luxi-queries.jsonl")
# differ from cluster to cluster
OF_THE_CLUSTER = {
    *("uuid", "group.uuid", "pnode.group.uuid", "nic.uuid/0", "nic.uuids"),
    *("mac", "nic.mac/0", "nic.macs", "ctime", "mtime"),
}
# one machine asks no node daemons; all these are without data (test_live_replay has them with data)
LIVE = {
    *(
        "bootid",
        "cnodes",
        "cnos",
        "csockets",
        "ctotal",
        "mfree",
        "mnode",
        "mtotal",
        "dfree",
        "dtotal",
        "spfree",
        "sptotal",
    ),
    *("status", "oper_state", "oper_ram", "oper_vcpus", "console", "export"),
}
# fields that Ganeti has not
OURS = {
    *("opid", "summary_text", "reason", "reason_text", "words", "user", "node", "batch", "batch_terms"),
    *("name", "labels", "hold", "uses", "tries", "dependencies", "trace", "traceparent", "exit_code", "begin_ts"),
}
# of the program, and the two keys that follow the cluster's own
FACTS_THAT_DIFFER = {"software_version", "vcs_version", "architecture", "uuid", "ctime", "mtime"}


@pytest.fixture(scope="module")
def luxid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("replay")) as cluster:
        rule = next(each for each in EXCHANGES if each["name"] == "QueryFilters/all")
        keys = json.loads(rule["req"])["args"][1]
        values = json.loads(rule["resp"])["result"][0]
        config = recorded_json()
        config["filters"] = {values[0]: dict(zip(keys, values, strict=True))}
        cluster.paths.config_data.write_bytes(orjson.dumps(config))
        cluster.paths.make_folders()
        for job in recorded_jobs():
            cluster.paths.job_file(job.job_id).write_bytes(encode_job(job))
        cluster.start("wconfd", "luxid")
        yield cluster


def shape_of_error(reply: dict[str, Any]) -> Any:
    """Its class, and what comes with the text; of one that was not understood only that."""
    match reply["result"]:
        case [str() as name, [_, *rest]]:
            return [name, rest]
        case _:
            return "plain text"


def without_docs(definitions: list[dict[str, str]]) -> list[dict[str, str]]:
    assert all(definition["doc"] for definition in definitions)
    return [{key: value for key, value in definition.items() if key != "doc"} for definition in definitions]


def normal_cell(kind: str, name: str, cell: list[Any]) -> Any:
    if kind in ("node", "instance", "export") and name in LIVE:
        return "live"
    if kind in ("node", "instance", "group", "network") and name in OF_THE_CLUSTER:
        return [cell[0], type(cell[1])]
    return cell


def normal(request: dict[str, Any], result: Any) -> Any:
    method, args = request["method"], request["args"]
    if method == "QueryFields":
        return without_docs([definition for definition in result["fields"] if definition["name"] not in OURS])
    if method == "Query":
        rows = [[normal_cell(args[0], *pair) for pair in zip(args[1], row, strict=True)] for row in result["data"]]
        return [without_docs(result["fields"]), rows]
    if method in ("QueryNodes", "QueryInstances", "QueryGroups"):
        kind = method.removeprefix("Query").removesuffix("s").lower()
        return [
            [normal_cell(kind, name, [0, value])[1:] for name, value in zip(args[1], row, strict=True)]
            for row in result
        ]
    if method == "QueryClusterInfo":
        return {key: value for key, value in result.items() if key not in FACTS_THAT_DIFFER}
    return result


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["name"])
def test_a_recorded_query_is_answered_as_it_was(luxid: Cluster, exchange: dict[str, Any]) -> None:
    request, expected = json.loads(exchange["req"]), json.loads(exchange["resp"])

    with RawCaller(luxid.paths.query_socket) as caller:
        answer = caller.ask(exchange["req"].encode())
        assert answer is not None
        reply = json.loads(answer)
        if exchange.get("closed"):
            assert caller.receive() is None

    assert reply["success"] is expected["success"]
    if expected["success"]:
        assert normal(request, reply["result"]) == normal(request, expected["result"])
    else:
        assert shape_of_error(reply) == shape_of_error(expected)


def test_all_recorded_kinds_of_queries_are_among_them() -> None:
    methods = {json.loads(exchange["req"])["method"] for exchange in EXCHANGES}

    assert len(EXCHANGES) > 80
    assert methods == {
        *("Query", "QueryFields", "QueryJobs", "QueryNodes", "QueryGroups", "QueryNetworks", "QueryInstances"),
        *("QueryFilters", "QueryExports", "QueryTags", "QueryConfigValues", "QueryClusterInfo"),
    }
