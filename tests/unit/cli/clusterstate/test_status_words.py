"""What `gantry status` advises where a daemon is down."""

from pathlib import Path

import pytest

from cli.gantry.status import DaemonStatus, what_is_wrong
from common.paths import Paths


@pytest.mark.parametrize(
    ("has_supervisor", "advice"), [(True, "the supervisor starts what ended again"), (False, "start with: gantry")]
)
def test_who_starts_a_daemon_is_told(has_supervisor: bool, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.gantry.status.up_command", lambda: "gantry up")
    down = [DaemonStatus("luxid", None, is_ready=False), DaemonStatus("wconfd", None, is_ready=True)]

    told = what_is_wrong(down, Paths.under_root(Path("/nowhere")), has_supervisor=has_supervisor)

    assert told.startswith("luxid is not ready; ")
    assert advice in told
