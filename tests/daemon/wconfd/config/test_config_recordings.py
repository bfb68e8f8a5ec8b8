"""Recorded conversations with Ganeti 3.0.2's wconfd about its configuration, held again with ours.

Every answer must be the recorded one, but for what is named here: times, texts of errors (their
names are compared), and `ALLOWED`. Random values are taken from the recording, so that `tempres.data`
is compared byte for byte.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from common.clusterinit import create_cluster
from common.paths import Paths
from tests.support.cluster import CHECKOUT
from tests.support.daemons.wconfd import Calls

FOLDER = CHECKOUT / "tests/data/ganeti-3.0.2"
SESSIONS = sorted((FOLDER / "wconfd-sessions").glob("*.jsonl"))
TIMES = ("ctime", "mtime")
# their answer is the whole configuration
WHOLE = ("readConfig", "lockConfig")
# recording, method, index among the recorded calls -> (what was recorded, what we answer), and why
ALLOWED: dict[tuple[str, str, int], tuple[Any, Any]] = {
    # an instance's own MACs are no clash when it is replaced (wconfd.md 11, BUG-2)
    ("wconfd-config", "addInstance", 37): (["ConfigurationError"], True),
}


class Recorded:
    """One recording: its calls with their answers, and files as they then were."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._lines = [json.loads(line) for line in path.read_text().splitlines()]

    def steps(self) -> Iterator[tuple[dict[str, Any] | None, Any]]:
        """(request, reply), or (None, content of tempres.data)."""
        asked: dict[int, Any] = {}
        for line in self._lines:
            if "req" in line:
                yield json.loads(line["req"]), json.loads(line["resp"])
            elif line.get("dir") == ">":
                asked[line["conn"]] = json.loads(line["msg"])
            elif line.get("dir") == "<":
                yield asked.pop(line["conn"]), json.loads(line["msg"])
            elif line.get("file") == "tempres.data":
                yield None, line["content"]

    def configuration(self) -> Any:
        """As it was in the beginning."""
        return next(reply["result"] for call, reply in self.steps() if call and call["method"] in WHOLE)

    def random_bytes(self) -> Iterator[bytes]:
        """What the daemon's random generator must have given."""
        for call, reply in self.steps():
            if call and reply["success"]:
                if call["method"] == "generateMAC":
                    yield bytes.fromhex(reply["result"].replace(":", ""))[3:]
                if call["method"] == "generateDRBDSecret":
                    yield bytes.fromhex(reply["result"])


def comparable(call: dict[str, Any], reply: dict[str, Any]) -> Any:
    """The result without times, and without the texts of errors."""
    result = reply["result"]
    if not reply["success"]:
        return result[:1]
    if call["method"].startswith("update") and isinstance(result, list) and len(result) == 2:
        # [serial, mtime]
        return result[:1]
    return without_times(result)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def differing(recorded: Any, ours: Any) -> tuple[Any, Any]:
    """Of two objects only the entries that differ."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        keys = [key for key in (*recorded, *ours) if recorded.get(key) != ours.get(key)]
        return {key: recorded.get(key) for key in keys}, {key: ours.get(key) for key in keys}
    return recorded, ours


async def hold_again(recording: Recorded, calls: Calls, paths: Paths) -> Sequence[tuple[str, str, int]]:
    """Return the allowed differences that occurred."""
    met = []
    for index, (call, then) in enumerate(recording.steps()):
        if call is None:
            assert paths.tempres_data.read_text() == then
            continue
        reply = await calls.reply(call)
        expected, ours = comparable(call, then), comparable(call, reply)
        if expected != ours:
            place = (recording.name, call["method"], index)
            assert ALLOWED.get(place) == differing(expected, ours), place
            met.append(place)
    return met


@pytest.mark.trio
@pytest.mark.parametrize("path", [FOLDER / "wconfd-config.jsonl", *SESSIONS], ids=lambda path: path.stem)
async def test_the_same_calls_get_the_same_answers_and_file(path: Path, tmp_path: Path, nursery: trio.Nursery) -> None:
    recording = Recorded(path)
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    paths.config_data.write_text(json.dumps(recording.configuration()))
    randoms = recording.random_bytes()
    calls = await Calls.start(paths, nursery, lambda count: next(randoms))

    met = await hold_again(recording, calls, paths)

    assert met == [place for place in ALLOWED if place[0] == recording.name]
    assert next(randoms, None) is None


def test_the_recordings_are_there() -> None:
    methods = {call["method"] for path in SESSIONS for call, _ in Recorded(path).steps() if call}
    assert {"addInstance", "commitTemporaryIps", "prepareClusterDestruction", "setInstancePrimaryNode"} <= methods
    assert {"guardedOpportunisticLockUnion", "updateNode", "verifyConfig", "writeConfig"} <= methods
