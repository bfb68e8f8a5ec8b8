"""What a trial is given, and what the unit under trial did."""

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
    """What a trial is given, and what the unit did in it.

    Args:
        folder: an empty one, for what the unit writes to `context.output`.
        config: the cluster's configuration; None: the unit must not look at it.
        settings: of the installation played; None: all defaults, in `folder`.
        cancel_when: asked whenever the unit looks, or waits, whether the job is cancelled.
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
        # all locks asked for -> the strongest mode
        self.asked: dict[Lock, LockMode] = {}
        # jobs submitted by the unit, as luxid gets them
        self.submitted: list[JobInput] = []
        # seconds that the unit let pass
        self.waited_s = 0.0

    @property
    def feedback(self) -> list[str]:
        """The lines of text in the job's log, those of `progress` among them."""
        return [message for kind, message in self.log if kind == "message" and isinstance(message, str)]

    @property
    def config(self) -> Config:
        """The configuration after what the unit changed."""
        assert self.wconfd is not None, "the trial has no configuration"
        return decode_config(self.wconfd.config)

    @property
    def config_changes(self) -> list[str]:
        """The changes of the configuration, by the names that wconfd's methods have: `["updateNode"]`."""
        return [request.METHOD for request in self.wconfd.changes] if self.wconfd is not None else []

    @property
    def locks(self) -> dict[str, str]:
        """All locks that were asked for, as they are written: `{"node/web1": "exclusive"}`."""
        return {str(lock): mode.value for lock, mode in sorted(self.asked.items())}

    def note_asked(self, requests: Iterable[LockRequest]) -> None:
        for lock, mode in ((request.lock, request.mode) for request in requests):
            known = self.asked.get(lock)
            if mode is not None and (known is None or not known.covers(mode)):
                self.asked[lock] = mode
