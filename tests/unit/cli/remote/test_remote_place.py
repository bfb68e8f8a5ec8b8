"""The cluster of another machine, as options and variables name it (DESIGN section 15)."""

import click
import pytest

from cli.remoteoptions import remote_options, remote_place
from common.errors import InvalidRequest


def test_a_user_in_the_address_is_refused_as_only_a_token_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_PASSWORD", "open-sesame")
    monkeypatch.delenv("GANTRY_TOKEN", raising=False)
    command = click.Command("gnt-job", params=remote_options(False))

    with (
        command.make_context("gnt-job", ["--remote", "https://ada@web1"]),
        pytest.raises(InvalidRequest, match="only a token counts there, no password of 'ada'"),
    ):
        remote_place()
