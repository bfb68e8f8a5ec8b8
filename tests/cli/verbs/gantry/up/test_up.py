"""`gantry up`, `status` and `down` with real daemons. Source: DESIGN section 6, "Restart"."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.paths import Paths
from common.system.processes import find_process
from common.system.running import find_daemon, find_supervisor
from tests.cli.command import Background, Ended, normalised, run
from tests.support.cluster import ALL
from tests.support.wait import wait_until

READY = """\
wconfd  ready  pid PID
forkserver  ready  pid PID
luxid  ready  pid PID
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """An empty root; at the end everything that runs in it is stopped, jobs included."""
    root = tmp_path / "r"
    yield root
    if root.exists():
        run("gantry", "--root", root, "down", "--jobs")
        # if luxid was not there to kill jobs
        run("gantry", "--root", root, "down")
        ended = run("gantry", "--root", root, "down")
        assert ended.out == "already down\n"


def gantry(root: Path, *words: object) -> Ended:
    ended = run("gantry", "--root", root, *words)
    return Ended(ended.code, normalised(ended.out, root=root), normalised(ended.err, root=root))


def pids(root: Path) -> dict[str, int]:
    paths = Paths.under_root(root)
    found = {name: find_daemon(paths, name) for name in ALL}
    return {name: running.pid for name, running in found.items() if running}


def kill(pid: int) -> None:
    """SIGKILL; until the process is gone its socket takes connections."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: find_process(pid) is None, what=f"process {pid} is gone")


def test_up_makes_a_cluster_of_an_empty_root_and_down_ends_it(root: Path) -> None:
    up = gantry(root, "up", "--detach")
    status = gantry(root, "status")
    again = gantry(root, "up", "--detach")
    down = gantry(root, "down")
    after = gantry(root, "status")

    assert up.code == 0
    assert up.out.splitlines()[0] == f"cluster  made  'gantry' with the node '{os.uname().nodename}' in ROOT/lib"
    assert up.out.partition("\n")[2] == READY
    assert status.code == 0
    assert status.out.endswith("\nqueue: empty\n")
    assert [line.split()[:2] for line in status.out.splitlines()[1:4]] == [[name, "ready"] for name in ALL]
    assert (again.code, again.err) == (0, "")
    assert again.out == "already up with pid PID; 'gantry --root ROOT status' tells more\n"
    assert down == Ended(0, "down\n", "")
    assert pids(root) == {}
    error = "error: wconfd, forkserver, luxid are not ready; start with: gantry --root ROOT up\n"
    assert (after.code, after.err) == (3, error)


def test_up_makes_no_new_configuration_for_jobs_that_had_one(root: Path) -> None:
    """With a new one, filter rules and all else of the lost one would be gone, and nobody would have been told."""
    gantry(root, "up", "--detach")
    gantry(root, "job", "run", "--wait", "--", "true")
    gantry(root, "down")
    config = Paths.under_root(root).config_data
    content = config.read_bytes()
    config.unlink()

    refused = gantry(root, "up", "--detach")

    assert refused.code == 1
    assert refused.err == (
        "error: 'ROOT/lib/config.data' is missing, though there have been jobs here: bring it back from a backup, or "
        "make a new configuration for them with: gnt-cluster --root ROOT init\n"
    )
    assert not config.exists()
    config.write_bytes(content)
    assert gantry(root, "up", "--detach").code == 0


def test_status_as_json_tells_pids_and_the_queue(root: Path) -> None:
    gantry(root, "up", "--detach")
    run("gnt-job", "--root", root, "run", "--wait", "true")

    status = json.loads(run("gantry", "--root", root, "status", "--output", "json").out)

    assert (status["ready"], status["jobs"], status["drained"]) == (True, {"success": 1}, False)
    assert {name: daemon["pid"] for name, daemon in status["daemons"].items()} == pids(root)


def test_a_daemon_that_dies_is_started_again(root: Path) -> None:
    with Background("gantry", "--root", root, "up") as up:
        lines = [up.read_line() for _ in range(5)]
        before = pids(root)

        os.kill(before["luxid"], signal.SIGKILL)
        ended, ready = up.read_line(), up.read_line()
        after = pids(root)
        answer = gantry(root, "job", "list", "--no-headers")

        up.interrupt()
        last = up.end()

    assert lines[-1] == "up; Ctrl-C stops the daemons\n"
    assert normalised(ended) == "luxid  ended by SIGKILL; starting it again\n"
    assert normalised(ready) == "luxid  ready  pid PID\n"
    assert after["luxid"] != before["luxid"]
    assert {**after, "luxid": 0} == {**before, "luxid": 0}
    assert answer == Ended(0, "", "")
    assert last == Ended(0, "", "\nstopping; no job runs\n")
    assert pids(root) == {}


def test_a_terminal_that_hangs_up_stops_the_daemons_of_the_foreground(root: Path) -> None:
    with Background("gantry", "--root", root, "up") as up:
        while not up.read_line().startswith("up;"):
            pass
        supervisor = find_supervisor(Paths.under_root(root))
        assert supervisor is not None

        os.kill(supervisor.pid, signal.SIGHUP)
        last = up.end()

    # it is the very process that the user has started
    assert supervisor.pid == up.pid
    assert last == Ended(0, "", "\nstopping; no job runs\n")
    assert pids(root) == {}


def test_a_daemon_that_cannot_start_again_is_tried_after_growing_pauses_until_it_can(root: Path) -> None:
    config = Paths.under_root(root).config_data
    with Background("gantry", "--root", root, "up") as up:
        while not up.read_line().startswith("up;"):
            pass
        whole = config.read_bytes()
        config.write_text("{")

        os.kill(pids(root)["wconfd"], signal.SIGKILL)
        told = [up.read_line()]
        while "did not start" not in told[-1]:
            told.append(up.read_line())
        config.write_bytes(whole)
        while "ready" not in told[-1]:
            told.append(up.read_line())

        up.interrupt()
        last = up.end()

    assert told[0] == "wconfd      ended by SIGKILL; starting it again\n"
    assert told[1].startswith("wconfd ended with exit code 1 before it was ready; its log ")
    assert "wconfd      did not start; starting it again in 0.5 s\n" in told
    assert last.code == 0


def test_a_command_waits_for_a_daemon_that_is_being_restarted(root: Path) -> None:
    gantry(root, "up", "--detach")
    before = pids(root)

    kill(before["luxid"])
    # a loaded machine needs more than ten seconds
    patient = "import cli.connection; cli.connection.RESTART_PATIENCE_S = 60.0"
    listed = run("gantry", "--root", root, "job", "list", "--no-headers", prelude=patient)

    assert listed == Ended(0, "", "")
    assert pids(root)["luxid"] != before["luxid"]


def test_a_daemon_that_stays_away_under_a_supervisor_is_told_with_where_to_look(root: Path) -> None:
    gantry(root, "up", "--detach")
    config = Paths.under_root(root).config_data
    whole = config.read_bytes()
    config.write_text("{")

    kill(pids(root)["wconfd"])
    ended = gantry(root, "debug", "wconfd", "echo", "hello")
    config.write_bytes(whole)

    assert ended == Ended(
        3,
        "",
        "error: wconfd is being restarted and is not yet back; try again, or see why with: "
        "gantry --root ROOT status; tail ROOT/log/wconf-daemon.log\n",
    )


def wait_for_process(root: Path, module: str, *, other_than: int) -> int:
    """The pid of a daemon that has begun to start: it has no pid file yet."""

    def find() -> int | None:
        for proc in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (proc / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if module in words and str(root) in words and int(proc.name) != other_than:
                    return int(proc.name)
        return None

    wait_until(lambda: find() is not None, what=f"{module} is started")
    pid = find()
    assert pid is not None
    return pid


def test_a_daemon_is_restarted_while_another_one_does_not_get_ready(root: Path) -> None:
    with Background("gantry", "--root", root, "up") as up:
        while not up.read_line().startswith("up;"):
            pass
        before = pids(root)

        os.kill(before["wconfd"], signal.SIGKILL)
        told = [up.read_line()]
        # it is ready in some tenths of a second at the earliest
        stuck = wait_for_process(root, "daemons.wconfd.main", other_than=before["wconfd"])
        os.kill(stuck, signal.SIGSTOP)
        os.kill(before["forkserver"], signal.SIGKILL)
        told += [up.read_line(), up.read_line()]

        os.kill(stuck, signal.SIGKILL)
        while "wconfd      ready" not in told[-1]:
            told.append(up.read_line())
        up.interrupt()
        last = up.end()

    assert told[0] == "wconfd      ended by SIGKILL; starting it again\n"
    assert told[1] == "forkserver  ended by SIGKILL; starting it again\n"
    assert normalised(told[2]) == "forkserver  ready  pid PID\n"
    assert last.code == 0


def test_jobs_go_on_while_the_daemons_are_down(root: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    gantry(root, "up", "--detach")
    run("gnt-job", "--root", root, "run", "--lock", "node/web1", "cat", gate)
    wait_until(lambda: "running" in gantry(root, "job", "list").out, what="the job runs")

    down = gantry(root, "down")
    up = gantry(root, "up", "--detach")
    adopted = gantry(root, "job", "list", "--no-headers", "-o", "status")
    gate.write_text("through\n")
    waited = gantry(root, "job", "wait", "1")

    assert down == Ended(0, "down\n", "1 job goes on, found again by: gantry --root ROOT up\n")
    assert up == Ended(0, READY, "")
    assert adopted.out == "running\n"
    assert waited == Ended(0, "", "")
    assert gantry(root, "job", "output", "1").out == "through\n"


def test_down_with_jobs_kills_them_first(root: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    gantry(root, "up", "--detach")
    run("gnt-job", "--root", root, "run", "cat", gate)
    wait_until(lambda: "running" in gantry(root, "job", "list").out, what="the job runs")

    assert gantry(root, "down", "--jobs") == Ended(0, "down\n", "")

    gantry(root, "up", "--detach")
    assert gantry(root, "job", "list", "--no-headers", "-o", "status").out in ("canceled\n", "error\n")


def test_daemons_whose_supervisor_was_killed_are_found_and_stopped(root: Path) -> None:
    gantry(root, "up", "--detach")
    supervisor = find_supervisor(Paths.under_root(root))
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: find_supervisor(Paths.under_root(root)) is None, what="the supervisor is gone")

    told = gantry(root, "status")
    os.kill(pids(root)["luxid"], signal.SIGKILL)
    wait_until(lambda: "luxid" not in pids(root), what="luxid is gone")
    without = gantry(root, "status")
    up = gantry(root, "up", "--detach")
    down = gantry(root, "down")

    anew = "start all anew with: gantry --root ROOT down; gantry --root ROOT up"
    assert (told.code, without.code) == (0, 3)
    assert f"warning: daemons: their supervisor was killed, and one that ends now stays down; {anew}" in told.out
    assert without.err == f"error: luxid is not ready, and no supervisor starts it again; {anew}\n"
    error = (
        "error: wconfd runs already with pid PID, and no supervisor keeps it; stop it with: gantry --root ROOT down\n"
    )
    assert (up.code, up.err) == (1, error)
    assert down.out == "down\n"
    assert pids(root) == {}


@pytest.mark.parametrize("words", [["up"], ["up", "--detach"]])
def test_a_daemon_that_cannot_start_is_told_with_the_end_of_its_log(root: Path, words: list[str]) -> None:
    gantry(root, "up", "--detach")
    gantry(root, "down")
    Paths.under_root(root).config_data.write_text("{")

    up = gantry(root, *words)

    assert up.code in (1, 3)
    assert "ready" not in up.out
    assert up.err.startswith(
        "error: wconfd ended with exit code 1 before it was ready; its log 'ROOT/log/wconf-daemon.log'"
    )
    assert "ROOT/lib/config.data" in up.err
    assert pids(root) == {}


def test_a_root_too_deep_for_sockets_is_refused_with_the_path(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)

    ended = gantry(deep, "up")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: the socket path is ")
    assert ended.err.endswith("choose a shorter root or run folder\n")
    assert not deep.exists()


def test_init_makes_a_cluster_once(root: Path) -> None:
    made = run("gnt-cluster", "--root", root, "init", "lab", "--node", "n1")
    again = run("gnt-cluster", "--root", root, "init", "lab")

    assert made == Ended(0, f"cluster 'lab' made in {root}/lib\n", f"start it with: gantry --root {root} up\n")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("error: there is a cluster already: ")


def test_as_json_up_tells_the_status_and_down_what_it_leaves(root: Path) -> None:
    up = gantry(root, "up", "--detach", "--output", "json")
    again = gantry(root, "up", "--detach", "--output", "json")
    down = gantry(root, "down", "--output", "json")
    after = gantry(root, "down", "--output", "json")

    assert (up.code, again.code) == (0, 0)
    assert json.loads(up.out) == json.loads(again.out)
    assert json.loads(up.out)["ready"] is True
    assert up.err.endswith(READY)
    assert [json.loads(each.out) for each in (down, after)] == [
        {"was_up": True, "jobs_left": 0},
        {"was_up": False, "jobs_left": 0},
    ]
