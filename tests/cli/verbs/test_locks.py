"""`gnt-debug locks`. Source: cli.md 4."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import ProtocolError
from protocol.luxi.queries import QueryResult, read_lock_view
from tests.cli.command import Ended, run
from tests.cli.fakeluxid import FakeLuxid

Start = Callable[..., FakeLuxid]


def row(*values: Any) -> list[Any]:
    return [[0, value] for value in values]


# luxid's form: by name, with groups that have no holder, and jobs by id
LOCKS = [
    row("instance/i1", "exclusive", ["27491"], []),
    row("node/[lockset]", None, [], []),
    row("node/n1", "shared", ["27491", '"gnt-x"'], [["exclusive", ["27502"]]]),
    row("node/n3", None, [], [["shared", ["27502"]]]),
    row("network/x", None, [], [["shared", ['"me"']]]),
    row("job/9", None, [], [["success", ["job/27600"]], ["error", ["job/27603"]]]),
    row("job/10", None, [], [["success", ["job/27601", "job/27602"]]]),
]


def locks(root: Path, *words: object) -> Ended:
    return run("gnt-debug", "--root", root, "locks", *words)


def test_the_table_has_who_holds_and_who_waits_in_lock_order(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid().locks = LOCKS

    assert locks(tmp_path) == Ended(
        0,
        "NAME         MODE       OWNER            PENDING\n"
        "instance/i1  exclusive  job/27491        -\n"
        "node/n1      shared     job/27491,gnt-x  exclusive:job/27502\n"
        "node/n3      -          -                shared:job/27502\n"
        "network/x    -          -                shared:me\n"
        "job/9        -          -                success:job/27600,error:job/27603\n"
        "job/10       -          -                success:job/27601,job/27602\n",
        "",
    )


def test_json_has_the_same_rows(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid().locks = LOCKS[2:3]

    assert json.loads(locks(tmp_path, "--output", "json").out) == [
        {
            "name": "node/n1",
            "mode": "shared",
            "owners": ["job/27491", "gnt-x"],
            "pending": [["exclusive", ["job/27502"]]],
        }
    ]


def test_a_free_table_is_a_header_alone(start_luxid: Start, tmp_path: Path) -> None:
    start_luxid().locks = [row("node/[lockset]", None, [], [])]

    assert locks(tmp_path) == Ended(0, "NAME  MODE  OWNER  PENDING\n", "")


def test_a_luxid_that_does_not_run_is_3(tmp_path: Path) -> None:
    assert locks(tmp_path) == Ended(3, "", f"error: luxid is not running; start it with: gantry --root {tmp_path} up\n")


def test_an_answer_of_another_form_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown form"):
        read_lock_view(QueryResult((), [[(0, "node/n1")]]))


def test_people_read_the_name_of_a_node_behind_the_uuid_and_programs_do_not(start_luxid: Start, tmp_path: Path) -> None:
    uuid = "885f9ba0-b02d-470a-97d8-2c52a5b672e8"
    luxid = start_luxid()
    luxid.nodes = [{"uuid": uuid, "name": "web2"}]
    luxid.locks = [row(f"node/{uuid}", "shared", ["17"], []), row("node/web2", "exclusive", ["18"], [])]

    assert locks(tmp_path).out.splitlines()[1:] == [
        f"node/{uuid} (web2)  shared     job/17  -",
        f"node/web2{' ' * 39}  exclusive  job/18  -",
    ]
    assert locks(tmp_path, "--no-headers", "-o", "name").out == f"node/{uuid}\nnode/web2\n"
    assert json.loads(locks(tmp_path, "--output", "json").out)[0]["name"] == f"node/{uuid}"
