"""The names of one lock: users declare jobs by name, and running jobs lock nodes, groups and networks by UUID.

Theory. To compare the two, the locks of the few jobs with a process are widened by all other names of the same object,
short host names included; the declarations of queued jobs stay as they are written. So a new configuration
concerns only the jobs that run, and a job that was queued before its node got its name is compared right. An unknown
name stands for itself alone, and so does a short name that two hosts share.

Considered and rejected: putting the UUID into each declaration. A configuration that is read late, as after a restart,
or that changes, would touch all queued jobs.

Source: luxid.md 5.11; common/lockdecl.py.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from common.locks import LockLevel
from common.objects.config import Config
from common.objects.naming import short_names
from daemons.luxid.core.choice.needs import Name, Needs
from daemons.luxid.core.choice.weights import LEVELS

Words = tuple[str, ...]
_NODE_LEVELS: Final = (LockLevel.NODE, LockLevel.NODE_RES)


class Aliases:
    """All names of the objects of one configuration.

    Args:
        objects: the levels on which an object is locked, and its names.
    """

    def __init__(self, objects: Iterable[tuple[Iterable[LockLevel], Words]] = ()) -> None:
        # names of objects; a name that two objects share is left out
        self._others: dict[Name, Words] = {}
        shared: set[Name] = set()
        for levels, words in objects:
            for level_index in map(LEVELS.index, levels):
                names = [(level_index, word) for word in words]
                shared.update(name for name in names if name in self._others)
                self._others.update(dict.fromkeys(names, words))
        for name in shared:
            del self._others[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aliases) and self._others == other._others

    def with_aliases(self, needs: Needs) -> Needs:
        """Return the needs with all aliases of their names."""
        if not self._others or not (needs.shared or needs.exclusive):
            return needs
        return Needs(needs.shape, self._all(needs.shared), self._all(needs.exclusive), needs.is_known)

    def _all(self, names: Iterable[Name]) -> tuple[Name, ...]:
        found = set(names)
        for name in names:
            others = ((name[0], word) for word in self._others.get(name, ()))
            found.update(other for other in others if other in self._others)
        return tuple(sorted(found))


def aliases_of(config: Config) -> Aliases:
    """Return the aliases of the nodes, groups and networks of a configuration; instances are locked by name."""
    return Aliases(_objects(config))


def _objects(config: Config) -> Iterator[tuple[Iterable[LockLevel], Words]]:
    for node in config.nodes.values():
        yield _NODE_LEVELS, (node.uuid, node.name, *short_names(node.name))
    for group in config.nodegroups.values():
        yield (LockLevel.NODEGROUP,), (group.uuid, group.name)
    for network in config.networks.values():
        yield (LockLevel.NETWORK,), (network.uuid, network.name)
