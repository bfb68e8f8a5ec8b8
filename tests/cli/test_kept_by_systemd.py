"""A daemon of a user's instance is away, and systemd is the one that starts it again, or not."""

import threading
from pathlib import Path

import pytest

from common.paths import Paths
from tests.cli.command import Ended, environment, run
from tests.cli.fakeluxid import fake_luxid
from tests.support.wait import wait_until

# on a busy machine even this systemctl is slower than a user would like
PATIENT = "import common.system.unit; common.system.unit._PATIENCE_S = 60.0"
NOT_RUNNING = "error: luxid is not running; start it with: gantry --root {root} up\n"


class Systemd:
    """What a `systemctl` of the test's making tells of the user's units; it notes its calls."""

    def __init__(self, folder: Path) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "run/systemd").mkdir(parents=True)
        self.calls = folder / "calls"
        self.says = folder / "says"
        program = folder / "bin/systemctl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\ncat {self.says}\n')
        program.chmod(0o755)
        path = f"{folder}/bin:{environment()['PATH']}"
        self.env = {"PATH": path, "XDG_RUNTIME_DIR": str(folder / "run")}

    def tell(self, state: str, root: Path) -> None:
        fresh = self.says.with_suffix(".new")
        fresh.write_text(f"ActiveState={state}\nEnvironment=LANG=C GANTRY_ROOT={root}\n")
        fresh.rename(self.says)


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    return Systemd(tmp_path / "systemd")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    Paths.under_root(root).make_folders()
    return root


def test_a_command_waits_for_a_daemon_that_systemd_starts_again(root: Path, systemd: Systemd) -> None:
    systemd.tell("activating", root)
    ended: list[Ended] = []
    command = threading.Thread(
        target=lambda: ended.append(
            run("gnt-job", "--root", root, "list", "--no-headers", env=systemd.env, prelude=PATIENT)
        )
    )
    command.start()
    wait_until(systemd.calls.exists, what="the command has found nobody, and has asked systemd")

    with fake_luxid(Paths.under_root(root).query_socket):
        command.join()

    assert ended == [Ended(0, "", "")]
    asked = "--user show --property=ActiveState,Environment gantry-luxid.service"
    assert set(systemd.calls.read_text().splitlines()) == {asked}


def test_a_daemon_whose_unit_stops_meanwhile_is_not_waited_for_any_longer(root: Path, systemd: Systemd) -> None:
    systemd.tell("deactivating", root)

    def stop() -> None:
        wait_until(systemd.calls.exists, what="the command has asked systemd")
        systemd.tell("inactive", root)

    stopping = threading.Thread(target=stop)
    stopping.start()
    ended = run("gnt-job", "--root", root, "list", env=systemd.env, prelude=PATIENT)
    stopping.join()

    assert ended == Ended(3, "", NOT_RUNNING.format(root=root))
    # as many as the whole patience would have cost: 15
    assert len(systemd.calls.read_text().splitlines()) < 10


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_daemon_whose_unit_is_stopped_is_told_at_once(root: Path, systemd: Systemd, state: str) -> None:
    systemd.tell(state, root)

    assert run("gnt-job", "--root", root, "list", env=systemd.env, prelude=PATIENT) == Ended(
        3, "", NOT_RUNNING.format(root=root)
    )
    # once before it would wait, once for the words
    assert len(systemd.calls.read_text().splitlines()) == 2


def test_a_unit_of_another_installation_is_not_waited_for(root: Path, systemd: Systemd) -> None:
    systemd.tell("active", root.parent / "other")

    assert run("gnt-job", "--root", root, "list", env=systemd.env, prelude=PATIENT) == Ended(
        3, "", NOT_RUNNING.format(root=root)
    )


def test_a_daemon_that_answers_costs_no_question_to_systemd(root: Path, systemd: Systemd) -> None:
    systemd.tell("active", root)

    with fake_luxid(Paths.under_root(root).query_socket):
        assert run("gnt-job", "--root", root, "list", "--no-headers", env=systemd.env, prelude=PATIENT) == Ended(
            0, "", ""
        )

    assert not systemd.calls.exists()
