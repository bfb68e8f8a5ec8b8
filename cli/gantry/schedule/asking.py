"""What the verbs of `gantry schedule` ask luxid."""

from typing import Final, TypeVar

from cli.connection import open_luxid
from common.errors import InvalidRequest, NotFound
from protocol.luxi.schedules import ListSchedules, ScheduleView
from protocol.messages import Request

R = TypeVar("R")
# seconds; luxid has wconfd make changes durable
_PATIENCE_S: Final = 30.0


def ask(request: Request[R]) -> R:
    """Raises: as `BlockingClient.call`."""
    with open_luxid() as client:
        return client.call(request, timeout_s=_PATIENCE_S)


def views(names: tuple[str, ...] = (), next_count: int = 3) -> list[ScheduleView]:
    """The schedules of these names, in their order; all, if none is named. Raises: NotFound: there is no such."""
    found = {view.schedule.name: view for view in ask(ListSchedules(next_count))}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise NotFound(f"there is no schedule {unknown[0]!r:.80}; 'gantry schedule list' shows them")
    return [found[name] for name in names] if names else list(found.values())


def check_words(cron: str | None, every_s: float | None, *, needs_one: bool) -> None:
    """Raises: InvalidRequest: both are given, or none although one is needed."""
    if cron is not None and every_s is not None:
        raise InvalidRequest("--cron and --every exclude each other; give one of them")
    if needs_one and cron is None and every_s is None:
        raise InvalidRequest("a schedule needs --cron 'WORDS' or --every TIME, as in --cron '0 2 * * *' or --every 90m")
