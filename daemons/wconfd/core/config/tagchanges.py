"""Adding and removing the tags of an object. Pure; results as in `core.instances`.

Source: opcodes.md 4, TAGS_SET and TAGS_DEL; wconfd.md 2.3.
"""

from collections.abc import Collection
from typing import TypeVar

import attrs

from common.errors import ConfigurationError
from common.objects.config import Config
from common.objects.entity import Entity
from common.objects.tags import check_count, check_tags
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import CLUSTER, TABLES, touched, with_cluster_touched, with_entry

E = TypeVar("E", bound=Entity)


def change_tags(
    config: Config, kind: str, uuid: str, added: Collection[str], removed: Collection[str], now: float
) -> Config:
    """With these tags of one object; the change of a node counts for the cluster too, as its update does.

    Args:
        kind: cluster, or one of `TABLES` whose objects have tags.
        now: seconds since the epoch.
    Raises:
        ConfigurationError: there is no such object.
        TagError: a new tag breaks the rules of tags, or there would be too many.
    """
    check_tags(added)
    if kind == CLUSTER:
        cluster = _tagged(config.cluster, added, removed, now)
        return advanced(config, attrs.evolve(config, cluster=cluster), now)
    table = TABLES[kind]
    stored: Entity | None = getattr(config, table).get(uuid)
    if stored is None:
        raise ConfigurationError(f"there is no {kind} with the uuid '{uuid[:80]}'", uuid=uuid[:80])
    after = _tagged(stored, added, removed, now)
    if after is stored:
        return config
    changed = with_entry(config, table, uuid, after)
    if table == "nodes":
        changed = with_cluster_touched(changed, now)
    return advanced(config, changed, now)


def _tagged(stored: E, added: Collection[str], removed: Collection[str], now: float) -> E:
    tags = (stored.tags | frozenset(added)) - frozenset(removed)
    if tags == stored.tags:
        return stored
    check_count(len(tags))
    return touched(attrs.evolve(stored, tags=tags), now)
