"""Changes of single objects: replaced, tagged, ruled, limited. Pure."""

from collections.abc import Collection, Mapping
from typing import Final, Protocol, TypeVar

import attrs

from common.conditions import Condition, check_condition
from common.errors import ConfigurationError, Conflict, InvalidRequest
from common.objects.codec import decode_object, to_json
from common.objects.config import Cluster, Config, Entity
from common.objects.filter import FilterRule, rule_tag
from common.objects.kinds import FilterUuid, check_count, check_tags
from common.queue.reasons import ReasonTrail
from daemons.wconfd.core.config.configstate import (
    CLUSTER,
    TABLES,
    Stamp,
    advanced,
    is_same_object,
    object_of,
    touched,
    with_cluster_touched,
    with_entry,
    without_entry,
)
from daemons.wconfd.core.config.verify import find_problems

# Replacing one object, if it is still the one that the caller has read. Pure.
#
# The serial number that comes with the object is the one it had when it was read. A call may be
# delivered twice; the second finds what it wanted already there, or is known again by what the first
# was told (`core.config.configstate`), and is told the same.
#
# Source: wconfd.md 2.3, "Update rule".


class Counted(attrs.AttrsInstance, Protocol):
    """An object that counts its changes."""

    @property
    def uuid(self) -> str: ...
    @property
    def serial_no(self) -> int: ...
    @property
    def ctime(self) -> float: ...
    @property
    def mtime(self) -> float: ...


V = TypeVar("V", bound=Counted)


def update_cluster(config: Config, given: Cluster, now: float, told: Stamp | None = None) -> tuple[Config, Stamp]:
    """Replace the cluster's object.

    Args:
        told: what the first delivery of this very call was told, if there was one.
    Raises: ConfigurationError: it was changed since it was read, or is another cluster.
    """
    stored = config.cluster if config.cluster.uuid == given.uuid else None
    if told and _is_built_upon(stored, given):
        return config, told
    after = _updated(stored, given, now)
    if after is stored:
        return config, _stamp(after)
    return advanced(config, attrs.evolve(config, cluster=after), now), _stamp(after)


def update_object(
    config: Config, table: str, given: Counted, now: float, told: Stamp | None = None
) -> tuple[Config, Stamp]:
    """Replace an object of a table; the change of a node counts for the cluster too.

    Args:
        told: as `update_cluster`.
    Raises: ConfigurationError: it was changed since it was read, or there is none of this uuid.
    """
    stored = getattr(config, table).get(given.uuid)
    if told and _is_built_upon(stored, given):
        return config, told
    after = _updated(stored, given, now)
    if after is stored:
        return config, _stamp(after)
    changed = with_entry(config, table, given.uuid, after)
    if table == "nodes":
        changed = with_cluster_touched(changed, now)
    return advanced(config, changed, now), _stamp(after)


def _updated(stored: V | None, given: V, now: float) -> V:
    """The object after its update: the very same as stored if this update was made already."""
    if stored is None:
        raise ConfigurationError(f"there is no object with the uuid '{given.uuid}'", uuid=given.uuid)
    after = touched(given, now)
    replayed = attrs.evolve(after, mtime=stored.mtime)  # type: ignore[misc]  # the plugin does not see through the bound
    if is_same_object(stored, replayed):
        return stored
    if stored.serial_no != given.serial_no:
        raise ConfigurationError(
            f"object '{given.uuid}' was changed since it was read: its serial number is {stored.serial_no}, "
            f"not {given.serial_no}; read it again",
            uuid=given.uuid,
        )
    return after


def _is_built_upon(stored: Counted | None, given: Counted) -> bool:
    """Whether this object is what an update with `given` has become, and none that was made anew since."""
    return stored is not None and stored.serial_no > given.serial_no and stored.ctime == given.ctime


def _stamp(value: Counted) -> Stamp:
    return value.serial_no, value.mtime


# Setting values of the cluster. Pure.
#
# Theory. A job that changes parameters has read the cluster as a whole. Meanwhile ports are allocated and returned,
# which raises no serial number; so only the changed values are sent, and values with a way of their own are refused.
#
# Source: wconfd.md 2.3, 7.3 and 7.6.


# keys that other calls change, or nothing
_OTHERS: Final = (
    *("uuid", "serial_no", "ctime", "mtime", "tags"),
    *("master_node", "candidate_certs", "candidate_pool_size", "highest_used_port", "tcpudp_port_pool"),
)


def change_cluster(
    config: Config, values: Mapping[str, object], serial_no: int, now: float, told: Stamp | None = None
) -> tuple[Config, Stamp]:
    """Set the values; return the configuration, with the cluster's serial number and time.

    Args:
        serial_no: serial number of the cluster when the caller read it.
        now: seconds since the epoch.
        told: result of the first delivery of this very call, if there was one.
    Raises:
        InvalidRequest: an unknown key, a wrong value, or a key that other calls change.
        ConfigurationError: the cluster was changed since it was read.
        Conflict: the configuration would be unsound; the message says why.
    """
    if told:
        return config, told
    before = config.cluster
    if foreign := [key for key in values if key in _OTHERS]:
        raise InvalidRequest(f"'{foreign[0]}' of the cluster is changed by another call, or never")
    if before.serial_no != serial_no:
        raise ConfigurationError(
            f"the cluster was changed since it was read: its serial number is {before.serial_no}, not {serial_no}; "
            "read it again",
            uuid=before.uuid,
        )
    after = touched(decode_object({**to_json(before), **values}, Cluster, "cluster"), now)
    changed = advanced(config, attrs.evolve(config, cluster=after), now)
    known = find_problems(config)
    if problems := [problem for problem in find_problems(changed) if problem not in known]:
        raise Conflict(f"the cluster cannot be changed so: {problems[0]}")
    return changed, (after.serial_no, after.mtime)


# Adding and removing the tags of an object. Pure; results as in `core.config.instances`.
#
# Source: opcodes.md 4, TAGS_SET and TAGS_DEL; wconfd.md 2.3.


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
    stored: Entity = object_of(getattr(config, table), uuid, kind)
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


# Adding, replacing and deleting filter rules. Pure; results as in `core.config.instances`.
#
# Source: filters design; wconfd.md 7.3.


def replace_filter(config: Config, rule: FilterRule, now: float, condition: Condition | None = None) -> Config:
    """With this rule under its uuid, whether there was one or not.

    Raises: PreconditionFailed: there is another one than the condition says.
    """
    before = config.filters.get(FilterUuid(rule.uuid))
    if condition is not None and not (before is not None and _is_of_one_call(before, rule)):
        check_condition(condition, f"filter rule '{rule.uuid}'", None if before is None else rule_tag(before))
    return advanced(config, with_entry(config, "filters", rule.uuid, rule), now)


def _is_of_one_call(one: FilterRule, other: FilterRule) -> bool:
    """Whether both were asked for by one call, which was delivered twice: who asked, and when, is the same."""
    asked = _asked(one)
    return bool(asked) and (asked, one.predicates, one.priority, one.action) == (
        *(_asked(other), other.predicates, other.priority, other.action),
    )


def _asked(rule: FilterRule) -> ReasonTrail:
    """What the client has put into the trail; luxid adds the time of the delivery."""
    return tuple(entry for entry in rule.reason_trail if entry.source.startswith("gnt:"))


def delete_filter(config: Config, uuid: str, now: float, condition: Condition | None = None) -> Config:
    """Without the rule of this uuid; nothing if there is none.

    Raises: PreconditionFailed: there is another one than the condition says.
    """
    rule = config.filters.get(FilterUuid(uuid))
    if rule is None:
        return config
    check_condition(condition, f"filter rule '{uuid}'", rule_tag(rule))
    return advanced(config, without_entry(config, "filters", uuid), now)


# How many jobs may run and be followed: limits of the cluster. Pure; results as in `core.config.instances`.
#
# Source: luxid.md 5.3; DESIGN section 11.


def set_job_limits(config: Config, max_running: int | None, max_tracked: int | None, now: float) -> Config:
    """With these limits; None leaves one as it is. Nothing changes if they are so already."""
    wanted = {"max_running_jobs": max_running, "max_tracked_jobs": max_tracked}
    after = attrs.evolve(config.cluster, **{name: value for name, value in wanted.items() if value is not None})  # type: ignore[arg-type]
    if after == config.cluster:
        return config
    return advanced(config, attrs.evolve(config, cluster=touched(after, now)), now)


def job_limits(config: Config) -> tuple[int, int]:
    """Jobs that may run at once, and jobs that may be followed at once."""
    return config.cluster.max_running_jobs, config.cluster.max_tracked_jobs
