"""A row of a daemon's table whose handler is of the wrong type does not pass mypy."""

import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[4]
ROWS = """
from collections.abc import Sequence

import orjson

from common.access import Role
from protocol.luxi.jobs import ArchiveJob, CancelJob, ChangeResult
from protocol.luxi.queries import QueryJobs, QueryResult, Rows
from protocol.peer import Peer
from protocol.serving.route import Pieces
from protocol.serving.route import AnyRoute, Route

async def right(call: CancelJob, peer: Peer) -> ChangeResult:
    raise NotImplementedError

async def other_request(call: ArchiveJob, peer: Peer) -> ChangeResult:
    raise NotImplementedError

async def other_reply(call: CancelJob, peer: Peer) -> list[object]:
    raise NotImplementedError

async def pieces(call: QueryJobs, peer: Peer) -> Pieces[Rows]:
    raise NotImplementedError

async def other_pieces(call: QueryJobs, peer: Peer) -> Pieces[QueryResult]:
    raise NotImplementedError

TABLE: Sequence[AnyRoute] = [
    Route(CancelJob, right, role=Role.READ),
    Route(CancelJob, other_request, role=Role.READ),  # wrong
    Route(CancelJob, other_reply, role=Role.READ),  # wrong
    Route(QueryJobs, pieces, role=Role.READ),
    Route(QueryJobs, other_pieces, role=Role.READ),  # wrong
]
"""


def test_a_handler_of_another_request_or_reply_does_not_pass_mypy(tmp_path: Path) -> None:
    table = tmp_path / "table.py"
    table.write_text(ROWS)

    checked = subprocess.run(
        (sys.executable, "-m", "mypy", "--strict", str(table)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    refused = {int(line) for line in re.findall(r"table\.py:([0-9]+): error: Argument 2 to \"Route\"", checked.stdout)}
    wrong = {number for number, line in enumerate(ROWS.splitlines(), 1) if line.endswith("# wrong")}
    assert refused == wrong, checked.stdout + checked.stderr
    assert checked.stdout.count("error:") == len(wrong), checked.stdout
