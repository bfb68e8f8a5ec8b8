"""What the verbs of `gantry schedule` ask luxid."""

from typing import Final, TypeVar

from cli.connection import open_luxid
from common.errors import PrerequisiteError
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
    """The schedules of these names, in their order; without names all, without the opcodes of their jobs.

    Raises: PrerequisiteError: one is not there.
    """
    found = {view.schedule.name: view for view in ask(ListSchedules(next_count, names or None))}
    unknown = [name for name in names if name not in found]
    if unknown:
        text = f"there is no schedule {unknown[0]!r:.80}; 'gantry schedule list' shows them"
        raise PrerequisiteError(text, "unknown_entity")
    return [found[name] for name in names] if names else list(found.values())
