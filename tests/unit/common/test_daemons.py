"""The rows of daemons agree with each other, with the settings, and with what is installed."""

import configparser
import importlib.util
import re
import tomllib
from pathlib import Path

import attrs
import pytest

import common.daemons
from common.daemons import DAEMONS, Daemon, Feature, NodeKind, daemon_named, start_order
from common.errors import NotFound
from common.settings import Settings

CHECKOUT = Path(__file__).parents[3]
SYSTEMD = CHECKOUT / "deploy" / "systemd"
BY_NAME = pytest.mark.parametrize("daemon", DAEMONS, ids=lambda daemon: daemon.name)


def row(name: str, *after: str, runs_on: NodeKind = NodeKind.MASTER) -> Daemon:
    return Daemon(name, f"daemons.{name}.main", f"{name}.pid", f"{name}.log", runs_on=runs_on, started_after=after)


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((SYSTEMD / name).read_text())
    return parser


@BY_NAME
def test_no_two_daemons_share_a_name_or_a_file(daemon: Daemon) -> None:
    others = [other for other in DAEMONS if other is not daemon]
    for field in ("name", "module", "pid_file", "log_file", "socket"):
        own = getattr(daemon, field)
        assert own is None or own not in [getattr(other, field) for other in others]


@BY_NAME
def test_a_daemon_has_its_program_and_its_settings(daemon: Daemon) -> None:
    assert importlib.util.find_spec(daemon.module) is not None
    assert daemon.settings is None or daemon.settings in attrs.fields_dict(Settings)


@BY_NAME
def test_a_daemon_has_a_console_script_and_a_unit_that_is_started_after_the_same_others(daemon: Daemon) -> None:
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    service = f"gantry-{daemon.name}.service"
    wanted = {f"gantry-{name}.service" for name in daemon.started_after}

    assert scripts[f"gantry-{daemon.name}"] == f"{daemon.module}:main"
    assert unit(service)["Service"]["ExecStart"] == f"/opt/gantry/bin/gantry-{daemon.name}"
    assert set(unit(service)["Unit"].get("After", "").split()) == wanted
    assert service in unit("gantry.target")["Unit"]["Wants"].split()


def test_logs_of_all_daemons_are_opened_anew_after_rotation() -> None:
    text = (CHECKOUT / "deploy/logrotate/gantry").read_text()
    line = next(line for line in text.splitlines() if line.strip().startswith("for unit in"))

    assert {f"gantry-{daemon.name}" for daemon in DAEMONS if not daemon.user} <= set(line.replace(";", " ").split())
    # those with users of their own have folders of their own
    for name in (daemon.name for daemon in DAEMONS if daemon.user):
        (own,) = re.findall(rf"^/var/log/gantry-{name}/\*\.log {{\n(?:    .*\n)+}}$", text, re.M)
        assert f"--signal=HUP gantry-{name}.service " in own


def test_each_daemon_is_started_after_those_it_needs_and_otherwise_as_the_rows_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(common.daemons, "DAEMONS", (row("a", "c"), row("b"), row("c", "d"), row("d"), row("e")))

    assert [daemon.name for daemon in start_order()] == ["b", "d", "c", "a", "e"]


def test_the_master_runs_what_candidates_run_and_those_what_all_nodes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (row("m"), row("c", runs_on=NodeKind.CANDIDATES), row("n", runs_on=NodeKind.ALL))
    monkeypatch.setattr(common.daemons, "DAEMONS", rows)

    ran = {place: "".join(daemon.name for daemon in start_order(place)) for place in NodeKind}

    assert ran == {NodeKind.MASTER: "mcn", NodeKind.CANDIDATES: "cn", NodeKind.ALL: "n"}


def test_what_is_for_many_machines_does_not_run_on_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (row("m"), attrs.evolve(row("n", runs_on=NodeKind.ALL), feature=Feature.NODES))
    monkeypatch.setattr(common.daemons, "DAEMONS", rows)

    assert [daemon.name for daemon in start_order()] == ["m"]
    assert [daemon.name for daemon in start_order(features=[Feature.NODES])] == ["m", "n"]
    assert [daemon.name for daemon in start_order(NodeKind.ALL, features=[Feature.NODES])] == ["n"]


def test_an_unknown_daemon_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        NotFound, match="no daemon 'luxidd'; known are noded, keeperd, wconfd, forkserver, luxid, rapid"
    ):
        daemon_named("luxidd")
