"""The supervisor of a command among processes that it may not signal (DESIGN section 16)."""

import os
import signal
from typing import Any, cast

import attrs
import pytest

from common.commands import supervision
from common.commands.supervision import Supervision

OWN, SUDO, YOUNGER = 71, 72, 73


def test_a_child_of_another_user_neither_ends_the_supervisor_nor_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A supervisor that fails would give back the livelock while the child lives."""
    killed = list[int]()

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        if pid == SUDO:
            raise PermissionError
        killed.append(pid)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(supervision, "own_children", lambda: frozenset({OWN, SUDO, YOUNGER}))
    monkeypatch.setattr(Supervision, "_reap", lambda self: None)
    nothing = {field.name: cast(Any, None) for field in attrs.fields(Supervision) if field.init}

    Supervision(**nothing)._kill_children()

    assert sorted(killed) == [OWN, YOUNGER]
