"""`gantry-wconfd --check FILE...`: files looked at without a daemon; and damaged reservations stop one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.errors import DamagedFile
from daemons.wconfd.core.locks.waiting import try_update
from daemons.wconfd.filestores import ReservationStore
from daemons.wconfd.locks.lockfiles import LockFiles, journal_of
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.configs import RECORDED, recorded_json
from tests.support.locks import owner, requests
from tests.support.wait import PATIENCE_S


def check(*files: str | Path) -> tuple[int, list[str]]:
    command = [sys.executable, "-P", "-m", "daemons.wconfd.main", "--check", *map(str, files)]
    ended = subprocess.run(
        command, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout.splitlines()


def test_sound_files_are_ok() -> None:
    files = [RECORDED / name for name in ("config.data", "locks.data", "locks.data.busy", "tempres.data.busy")]

    assert check(*files) == (0, [f"{file}: ok" for file in files])


def test_every_problem_has_its_line_with_file_place_and_reason(tmp_path: Path) -> None:
    config = recorded_json()
    (node,) = config["nodes"]
    config["nodes"][node]["name"] = 5
    config["serial_no"] = "x"
    unsound: dict[str, Any] = recorded_json()
    unsound["cluster"] |= {"enabled_disk_templates": [], "master_node": "nobody"}
    contents = {
        "config.data": orjson.dumps(config),
        "config.data.old": orjson.dumps(unsound),
        "config.data.cut": orjson.dumps(config)[:100],
        "locks.data": b'[[[[1,"/l"],[["node/a","shared"]]],[[2,"/l"],[["nodes/a","shared"]]]],[]]',
        "ghosts.data": b'{"guarded":[[[1,"/l"],[["web2","1.0.1"]],null],[[2,"/l"],[],null]]}',
        "tempres.data": b'{"dRBD":[],"mACs":[[[1,"/l"],[7]]],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}',
        "notes.txt": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    code, lines = check(*(tmp_path / name for name in contents), tmp_path / "locks.data.none")

    assert code == 1
    shown = [line.removeprefix(f"{tmp_path}/") for line in lines]
    assert shown[:2] == [
        f"config.data: $.nodes['{node}'].name: expected string, got 5",
        "config.data: $.serial_no: expected int, got 'x'",
    ]
    assert shown[2:4] == [
        "config.data.old: $: no disk template is enabled",
        "config.data.old: $: the master node 'nobody' is none of the nodes",
    ]
    assert shown[4].startswith("config.data.cut: byte 1")
    assert shown[5].startswith("locks.data: $[0][1]: unknown lock level 'nodes'")
    assert shown[6].startswith("ghosts.data: $.guarded[1]: expected an owner, its commands, at least one")
    assert shown[7:] == [
        "tempres.data: $.mACs[0]: expected text, got 7",
        "notes.txt: $: it is none of the files of wconfd by its name; "
        "they begin with config.data, locks.data, ghosts.data, tempres.data, schedules.data, resources.data, "
        "sessions.data",
        "locks.data.none: -: it cannot be read: No such file or directory",
    ]


def test_locks_are_checked_together_with_their_journal(tmp_path: Path) -> None:
    path, journal = tmp_path / "locks.data", journal_of(tmp_path / "locks.data")
    path.write_bytes(b"[[],[]]")
    files, state = LockFiles.load(path, max_bypass=2, has_journal=True)
    files.make_whole(state)
    for turn in range(3):
        change = try_update(state, owner("job/1"), requests(f"node/n{turn}=shared"))
        files.write(state, change.state, [(owner("job/1"), change)])
        state = change.state

    assert check(path, journal) == (0, [f"{path}: ok", f"{journal}: ok"])

    content = journal.read_bytes()
    damaged_at = content.index(b"\n") + 1
    journal.write_bytes(content.replace(b"node/n0", b"node/x0"))
    reason = f"line 2, byte {damaged_at}: the line is not as it was written"
    assert check(path, journal) == (1, [f"{path}: {reason}", f"{journal}: {reason}"])

    journal.write_bytes(content)
    path.write_bytes(b"[[],[]]  ")
    code, lines = check(path)
    assert code == 1
    assert lines[0].startswith(f"{path}: line 1, byte 0: it continues another locks.data")


def test_without_files_the_usage_is_shown() -> None:
    assert check()[0] == 2
    code, lines = check("--help")
    assert (code, lines[0]) == (0, "usage: gantry-wconfd --check FILE...")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"dRBD":[]}'])
def test_damaged_reservations_stop_the_daemon_and_stay(idle: Cluster, content: bytes) -> None:
    path = idle.paths.tempres_data
    path.write_bytes(content)

    with pytest.raises(DamagedFile, match=rf"'{path}': .*damaged at .*: .*restore it .* rm {path}"):
        ReservationStore.load(path)
    command = [sys.executable, "-P", "-m", "daemons.wconfd.main", "--root", str(idle.root)]
    ended = subprocess.run(
        command, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert ended.returncode == 1
    assert f"'{path}': the reservations are damaged" in ended.stderr
    assert path.read_bytes() == content
