"""`gnt-cluster verify`, where a user leaves or may not ask."""

from collections.abc import Callable

import pytest

from cli.cluster import verify, verifyjobs
from cli.exitcodes import DONE, INTERRUPTED
from cli.live import watching
from common.errors import Denied


def test_ctrl_c_while_the_jobs_are_followed_ends_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def carry_out(op: object, options: object, program: str, verb: str, tell: Callable[[object], None]) -> int:
        tell({"jobs": [[True, 7]]})
        return DONE

    def leave(*_: object) -> None:
        raise watching.WaitAbandoned(INTERRUPTED)

    monkeypatch.setattr(verifyjobs, "carry_out", carry_out)
    monkeypatch.setattr(verifyjobs, "wants_json", lambda: True)
    monkeypatch.setattr(watching, "follow_own", leave)

    assert verifyjobs.verify_by_jobs({}) == INTERRUPTED


def test_a_user_whom_wconfd_does_not_hear_is_told_so_beside_the_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, **__: object) -> None:
        raise Denied("user 1000 may not connect")

    monkeypatch.setattr(verify, "ask_wconfd", refuse)

    assert verify._config_problems() == (["user 1000 may not connect"], False)
