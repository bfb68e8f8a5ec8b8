"""Tests of following one's own jobs, as far as no cluster is needed."""

from types import TracebackType
from typing import Self

import pytest

from cli.exitcodes import INTERRUPTED
from cli.live import watching
from cli.outputscreen import OutputScreen
from common.ids import JobId
from protocol.luxi.jobs import CancelJobs, ChangeResult


class Luxid:
    """Takes calls."""

    def __init__(self) -> None:
        self.calls: list[CancelJobs] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def call(self, request: CancelJobs) -> object:
        self.calls.append(request)
        return [ChangeResult(True, "job 7 is being killed") for _ in request.job_ids]


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("job_ids", "call"),
    [([7], CancelJobs((JobId(7),), kill=True)), ([7, 8], CancelJobs((JobId(7), JobId(8)), kill=True))],
)
def test_a_second_ctrl_c_counts_from_the_moment_the_user_can_read_of_it(
    monkeypatch: pytest.MonkeyPatch, job_ids: list[int], call: CancelJobs
) -> None:
    luxid = Luxid()

    def remark(text: str) -> None:
        if "Ctrl-C again" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "_follow", interrupted)
    monkeypatch.setattr("cli.live.watching._Watched.goes_on", lambda _: "job 7 goes on")
    monkeypatch.setattr(watching, "remark", remark)
    monkeypatch.setattr(watching, "open_luxid", lambda: luxid)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    with pytest.raises(watching.WaitAbandoned) as caught:
        watching.follow_own(job_ids, (), OutputScreen(is_raw=False), None)

    assert caught.value.code == INTERRUPTED
    assert luxid.calls == [call]
