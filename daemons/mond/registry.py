"""All collectors: our own, and those of plug-in packages.

A plug-in adds collectors by an entry point in the group `gantry.collectors` that names a module; every subclass of
`Collector` that the module defines and that has a name is taken. One that cannot be loaded harms no other.

Source: DESIGN section 13; mond.md 2, 4.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Final

from common.errors import Denied
from common.installation import use_plugins
from common.plugins import subclasses_in
from common.settings import Settings
from common.system.log import get_log
from daemons.mond.collectors.base import Collector
from daemons.mond.collectors.commands import Commands
from daemons.mond.collectors.machine import (
    DiskSpace,
    DiskStatistics,
    LoadCollector,
    MemoryCollector,
    NodeFactsCollector,
    ProcessorLoad,
)
from daemons.mond.collectors.standing import Lag, NodeRoleCollector

GROUP: Final = "gantry.collectors"
# Ganeti's first, in its order
_OWN: Final[Sequence[type[Collector]]] = (
    ProcessorLoad,
    DiskStatistics,
    NodeFactsCollector,
    LoadCollector,
    MemoryCollector,
    DiskSpace,
    Commands,
    Lag,
    NodeRoleCollector,
)
_log: Final = get_log(__name__)


def make_collectors(settings: Settings) -> Sequence[Collector]:
    """One object of each collector, in the order of the lists. What cannot be made is logged and left out."""
    try:
        use_plugins(settings)
    except (Denied, OSError) as error:
        _log.error("plugins.refused", reason=error, effect="only installed collectors are used")
    found: dict[str, Collector] = {}
    for kind in (*_OWN, *_plugged_in()):
        if kind.NAME in found:
            _log.error("collector.refused", name=kind.NAME, module=kind.__module__, reason="the name is taken")
            continue
        try:
            found[kind.NAME] = kind(settings)
        except Exception:
            _log.exception("collector.not_made", name=kind.NAME, module=kind.__module__)
    return tuple(found.values())


def _plugged_in() -> Iterator[type[Collector]]:
    for point in entry_points(group=GROUP):
        try:
            module = point.load()
        except Exception:
            _log.exception("plugin.not_loaded", plugin=point.name, module=point.value)
            continue
        # a common base of several collectors has no name
        yield from (kind for kind in subclasses_in(module, Collector) if hasattr(kind, "NAME"))
