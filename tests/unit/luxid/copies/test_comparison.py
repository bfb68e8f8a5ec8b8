"""What the comparison of the master's jobs with a node's finds, and what it asks the node for. Source: noded.md 6."""

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha1
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from daemons.luxid.copying.calls import QueueCalls
from daemons.luxid.copying.comparison import JobsPart, QueueComparison, all_parts
from protocol.noded.call import NodeAddress, Outcome, Replied
from protocol.noded.clients.client import NodeClient
from protocol.noded.clients.line import NodeLine
from protocol.noded.facts import Check, NodeVerify
from protocol.noded.files import WireNames

NODE = NodeAddress("node2", "192.0.2.2")


@attrs.define
class Node:
    """Tells digests of its own files."""

    names: WireNames
    asked: list[str] = attrs.Factory(list)

    def silence(self, _: str) -> None:
        return None

    async def call_nodes(
        self, _: Iterable[NodeAddress], call: NodeVerify, __: float, *, even_paused: bool
    ) -> Mapping[str, Outcome[object]]:
        await trio.lowlevel.checkpoint()
        names = cast(list[str], call.checkdict[Check.FILES.value])
        self.asked += names
        found = {name: self.names.from_wire(name) for name in names}
        digests = {name: sha1(path.read_bytes()).hexdigest() for name, path in found.items() if path.exists()}
        return {NODE.name: Replied({Check.FILES.value: digests})}


def put(path: Path, content: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)


@pytest.mark.trio
async def test_what_differs_is_found_and_the_archive_is_asked_only_for_archived_jobs(tmp_path: Path) -> None:
    roots = tmp_path / "node1", tmp_path / "node2"
    ours, theirs = map(Paths.under_root, roots)
    for paths in (ours, theirs):
        paths.make_folders()
    # job: where it lies here and there, and whether it differs, and is to be sent with its content
    cases: dict[int, tuple[dict[str, str], dict[str, str], bool | None]] = {
        1: ({"live": "a"}, {"live": "a"}, None),
        2: ({"live": "a"}, {"live": "b"}, True),
        3: ({"live": "a"}, {}, True),
        4: ({"archived": "a"}, {"archived": "a"}, None),
        5: ({"archived": "a"}, {"live": "a"}, False),
        6: ({"archived": "a"}, {"live": "b"}, True),
        7: ({"archived": "a"}, {"archived": "b"}, True),
        # what is left over goes with the move
        8: ({"archived": "a"}, {"live": "a", "archived": "a"}, False),
        9: ({"archived": "a"}, {}, True),
        # gone from the master: the listing of the folders finds it
        10: ({}, {"live": "a"}, None),
    }
    for job, (here, there, _) in cases.items():
        for paths, places in ((ours, here), (theirs, there)):
            for place, content in places.items():
                put(paths.job_file(JobId(job)) if place == "live" else paths.archived_job_file(JobId(job)), content)
    node = Node(WireNames(roots[1]))
    line = NodeLine(NODE, cast(NodeClient, node))
    comparison = QueueComparison(ours, QueueCalls(ours, WireNames(roots[0])), line, lambda: iter(()))

    found = await comparison.compare(JobsPart([JobId(job) for job in cases]))

    assert found.differ == {job: differs for job, (_, _, differs) in cases.items() if differs is not None}
    asked = [(_job(name), "/archive/" in name) for name in node.asked]
    assert sorted(asked) == sorted([*((job, False) for job in range(1, 10)), *((job, True) for job in range(4, 10))])


@pytest.mark.trio
async def test_a_folder_that_cannot_be_listed_does_not_end_the_comparison(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    put(paths.job_file(JobId(1)), "a")
    put(paths.archived_job_file(JobId(2)), "a")
    folder = paths.archived_job_file(JobId(2)).parent
    node = Node(WireNames(tmp_path / "node2"))
    names = QueueCalls(paths, WireNames(tmp_path))
    parts = partial(all_parts, paths, takes_ours=False)
    comparison = QueueComparison(paths, names, NodeLine(NODE, cast(NodeClient, node)), parts)
    await comparison.step()
    # as an error of the disk: the name is there, and no folder can be listed
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(folder)
    with pytest.raises(OSError, match="symbolic links"):
        await _rest(comparison)

    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)

    assert await _rest(comparison) == [1, 2]


async def _rest(comparison: QueueComparison) -> list[JobId]:
    """The jobs that are compared from now on."""
    compared: list[JobId] = []
    while (found := await comparison.step()) is not None:
        compared += found.jobs
    return compared


def _job(name: str) -> int:
    return int(name.rpartition("job-")[2])
