"""`gantry up` where HTTP cannot start: all else runs. Source: DESIGN section 12; `daemons/supervisor`."""

import json
import socket
from pathlib import Path

from common.paths import Paths
from common.system.running import find_daemon
from tests.cli.command import run
from tests.support.machines.nodes import HOST
from tests.support.wait import wait_until


def test_a_taken_port_is_told_and_the_queue_runs_until_http_can_start_too(tmp_path: Path) -> None:
    root = tmp_path / "r"
    gantry = ("gantry", "--root", root)
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        _configure(root, f'address = "{HOST}"\nport = {port}\n')
        try:
            up = run(*gantry, "up", "--detach")
            status = run(*gantry, "status")
            told = json.loads(run(*gantry, "status", "--output", "json").out)
            job = run("gnt-job", "--root", root, "run", "--wait", "true")
            other.close()
            wait_until(lambda: run(*gantry, "status").code == 0, what="rapid is there, too")
        finally:
            down = run(*gantry, "down")

    why = f"cannot listen at '{HOST}' port {port}: address already in use; see 'address' and 'port' in [rapid]"
    assert up.code == 3
    assert up.err == f"warning: rapid did not start: {why}; all else runs, and rapid is tried again\n"
    assert [line.split()[:2] for line in up.out.splitlines()[1:]] == [
        [name, "ready"] for name in ("wconfd", "forkserver", "luxid")
    ]
    assert (status.code, status.err) == (
        3,
        f"error: rapid did not start: {why}; it is tried again, and all else runs\n",
    )
    assert (told["ready"], told["daemons"]["rapid"]["state"] in ("down", "starting")) == (False, True)
    assert told["daemons"]["rapid"]["reason"] == why
    assert job.code == 0
    assert down.code == 0
    assert find_daemon(Paths.under_root(root), "rapid") is None


def test_a_certificate_that_cannot_be_used_is_told_with_its_setting(tmp_path: Path) -> None:
    root, damaged = tmp_path / "r", tmp_path / "damaged.pem"
    damaged.write_text("no certificate\n")
    _configure(root, f'port = 1\ncertificate = "{damaged}"\n')
    try:
        up = run("gantry", "--root", root, "up", "--detach")
    finally:
        run("gantry", "--root", root, "down")

    assert up.code == 3
    assert up.err.startswith(f"warning: rapid did not start: the certificate '{damaged}' cannot be used: ")
    assert up.err.endswith("; see 'certificate' and 'key' in [rapid]; all else runs, and rapid is tried again\n")
    assert up.err.count("\n") == 1


def _configure(root: Path, rapid: str) -> None:
    settings = root / "gantry.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[rapid]\nenabled = true\n{rapid}")
