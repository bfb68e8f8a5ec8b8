"""How long a command waits for a daemon that is away: not where it never comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import connection
from common.settingsfile import load_settings
from common.system.running import RunningDaemon


@pytest.mark.parametrize(
    ("master", "patience_s"), [("node1", connection.RESTART_PATIENCE_S), ("node2", 0)], ids=["master", "other node"]
)
def test_only_on_the_master_a_command_waits_for_daemons_that_are_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, patience_s: float
) -> None:
    (tmp_path / "gantry.toml").write_text('[cluster]\nreplication = "nodes"\nnode_name = "node1"\n')
    settings = load_settings(tmp_path)
    settings.paths.data.mkdir()
    settings.paths.ssconf_file("master_node").write_text(f"{master}\n")
    waits: list[float] = []

    def client(socket: Path, *, connect_timeout_s: float, is_coming: Callable[[], bool], **_: Any) -> None:
        waits.append(connect_timeout_s if is_coming() else 0)

    monkeypatch.setattr(connection, "installation", lambda: settings)
    monkeypatch.setattr(connection, "remote_place", lambda: None)
    monkeypatch.setattr(connection, "is_remote", lambda: False)
    monkeypatch.setattr(connection, "refuse_other_cluster", lambda: None)
    monkeypatch.setattr(connection, "find_supervisor", lambda paths: RunningDaemon(1, 0.0))

    monkeypatch.setattr(connection, "BlockingClient", client)

    connection.open_luxid()
    connection.open_feed()
    connection.open_wconfd()
    connection.open_luxid(is_patient=False)

    assert waits == [patience_s, patience_s, patience_s, 0]
