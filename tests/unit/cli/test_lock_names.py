"""The names of nodes and node groups behind the uuids of their locks."""

import pytest

from cli import locknames
from cli.locknames import lock_names
from common.objects.kinds import QueryKind

UUID = "885f9ba0-b02d-470a-97d8-2c52a5b672e8"
OTHER = "227240e2-b090-4c65-8021-fc9e6586b7ff"


def test_names_stand_behind_uuids_and_only_what_is_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[QueryKind] = []

    def names(kind: QueryKind) -> dict[str, str]:
        asked.append(kind)
        return {UUID: "web1"}

    monkeypatch.setattr(locknames, "_names", names)

    assert lock_names(["node/web1", "instance/i1", f"job {UUID}"])("node/web1") == "node/web1"
    assert asked == []
    text = f"waits for node/{UUID} (shared), node/{OTHER} and node/web1"
    assert lock_names([text])(text) == f"waits for node/{UUID} (web1) (shared), node/{OTHER} and node/web1"
    short = lock_names([text], is_short=True)
    assert short(text) == f"waits for node/885f9ba0… (web1) (shared), node/{OTHER} and node/web1"
    assert asked == [QueryKind.NODE] * 2
    lock_names([f"nodegroup/{UUID}"])
    assert asked[2:] == [QueryKind.GROUP]
