"""The settings of a trial, and a record of what the unit under trial did."""

from collections.abc import Callable, Iterable
from pathlib import Path

from common.locks import Lock, LockMode, LockRequest
from common.objects.codec import decode_config, to_json
from common.objects.config import Config
from common.paths import Paths
from common.settings import Settings
from daemons.jobproc.trial.wconfd import FakeWconfd
from protocol.luxi.submission import JobInput


def _never(trial: "TrialRecord") -> bool:
    return False


class TrialRecord:
    """The settings of a trial, and a record of what the unit did in it.

    Args:
        folder: an empty one, for the output of the unit (`context.output`).
        config: the cluster's configuration; None: the unit must not use it.
        settings: of the simulated installation; None: all defaults, in `folder`.
        cancel_when: called whenever the unit checks, or waits; returns whether the job is cancelled.
        kill_when: the same for a kill.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: Config | None = None,
        settings: Settings | None = None,
        cancel_when: "Callable[[TrialRecord], bool]" = _never,
        kill_when: "Callable[[TrialRecord], bool]" = _never,
    ) -> None:
        self.settings = settings or Settings(Paths.under_root(folder))
        self.wconfd = None if config is None else FakeWconfd(to_json(config))
        self.cancel_when = cancel_when
        self.kill_when = kill_when
        # (kind, message) of each entry of the job's log
        self.log: list[tuple[str, object]] = []
        # every requested lock -> the strongest mode
        self.asked: dict[Lock, LockMode] = {}
        # jobs submitted by the unit, as luxid gets them
        self.submitted: list[JobInput] = []
        # seconds for which the unit waited
        self.waited_s = 0.0

    @property
    def feedback(self) -> list[str]:
        """The lines of text in the job's log, those of `progress` included."""
        return [message for kind, message in self.log if kind == "message" and isinstance(message, str)]

    @property
    def config(self) -> Config:
        """The configuration after the unit's changes."""
        assert self.wconfd is not None, "the trial has no configuration"
        return decode_config(self.wconfd.config)

    @property
    def config_changes(self) -> list[str]:
        """The changes of the configuration, by the names of wconfd's methods: `["updateNode"]`."""
        return [request.METHOD for request in self.wconfd.changes] if self.wconfd is not None else []

    @property
    def locks(self) -> dict[str, str]:
        """All requested locks, by name: `{"node/web1": "exclusive"}`."""
        return {str(lock): mode.value for lock, mode in sorted(self.asked.items())}

    def note_asked(self, requests: Iterable[LockRequest]) -> None:
        for lock, mode in ((request.lock, request.mode) for request in requests):
            known = self.asked.get(lock)
            if mode is not None and (known is None or not known.covers(mode)):
                self.asked[lock] = mode
