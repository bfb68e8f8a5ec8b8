"""The cluster of another machine, as options and variables name it (DESIGN section 15)."""

import click
import pytest

from cli.remoteoptions import remote_options, remote_place
from common.errors import InvalidRequest


def test_a_shell_that_asks_what_could_be_typed_is_asked_for_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.remoteoptions.is_interactive", lambda: True)
    monkeypatch.delenv("GANTRY_PASSWORD", raising=False)
    monkeypatch.delenv("GANTRY_TOKEN", raising=False)
    command = click.Command("gnt-job", params=remote_options(False))

    with (
        command.make_context("gnt-job", ["--remote", "https://ada@web1"], resilient_parsing=True),
        pytest.raises(InvalidRequest, match="the password of 'ada' is missing"),
    ):
        remote_place()
