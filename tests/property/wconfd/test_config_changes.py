"""Changes of objects: each leaves a sound configuration sound, counts once, and a repeated update changes nothing."""

from typing import Any

import attrs
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from common.errors import GantryError
from common.objects.config import Config
from common.objects.kinds import AdminState, InstanceUuid
from daemons.wconfd.core.config import instances
from daemons.wconfd.core.config.changes import update_object
from daemons.wconfd.core.config.verify import find_problems
from tests.support.configs import disk, instance, small_config

UUIDS = st.sampled_from(["i1", "i2", "i3"])
DISKS = st.sampled_from(["d1", "d2", "d3", "d4"])
PLACES = st.none() | st.integers(-1, 4)


class Changes(RuleBasedStateMachine):
    """A refused change must leave everything unchanged; a made one must count and be consistent."""

    updates = Bundle("updates")

    def __init__(self) -> None:
        super().__init__()
        self.config = small_config()
        self.now = 2000.0

    def make(self, change: Any) -> None:
        """Carry out `change(config, now)`, which returns the configuration or it with an answer."""
        self.now += 1
        try:
            result = change(self.config, self.now)
        except GantryError:
            return
        after: Config = result[0] if isinstance(result, tuple) else result
        if after is not self.config:
            assert after.serial_no - self.config.serial_no in (1, 2)
            assert after.mtime == self.now
        self.config = after

    @rule(uuid=UUIDS, replace=st.booleans())
    def add(self, uuid: str, replace: bool) -> None:
        disks = self.config.instances[InstanceUuid(uuid)].disks if uuid in self.config.instances else ()
        given = instance(uuid, disks=list(disks), network_port=11000)
        self.make(lambda config, now: instances.add_instance(config, given, (), now, replace=replace))

    @rule(uuid=UUIDS)
    def remove(self, uuid: str) -> None:
        self.make(lambda config, now: instances.remove_instance(config, uuid, now))
        assert uuid not in self.config.instances

    @rule(uuid=UUIDS, new=DISKS, index=PLACES, replace=st.booleans())
    def add_disk(self, uuid: str, new: str, index: int | None, replace: bool) -> None:
        self.make(lambda config, now: instances.add_disk(config, uuid, disk(new), index, now, replace=replace))

    @rule(uuid=UUIDS, old=DISKS, index=PLACES)
    def attach(self, uuid: str, old: str, index: int | None) -> None:
        self.make(lambda config, now: instances.attach_disk(config, uuid, old, index, now))

    @rule(uuid=UUIDS, old=DISKS)
    def detach(self, uuid: str, old: str) -> None:
        self.make(lambda config, now: instances.detach_disk(config, uuid, old, now))

    @rule(uuid=UUIDS, old=DISKS)
    def remove_disk(self, uuid: str, old: str) -> None:
        self.make(lambda config, now: instances.remove_disk(config, uuid, old, now))

    @rule(uuid=UUIDS, state=st.sampled_from([None, *AdminState]), active=st.sampled_from([None, True, False]))
    def set_status(self, uuid: str, state: AdminState | None, active: bool | None) -> None:
        self.make(lambda config, now: instances.set_instance_status(config, uuid, state, active, None, now))

    @rule()
    def allocate_port(self) -> None:
        self.make(instances.allocate_port)

    @rule(port=st.integers(11000, 11003))
    def give_port_back(self, port: int) -> None:
        self.make(lambda config, now: instances.add_port(config, port, now))

    @rule(target=updates, uuid=UUIDS, os=st.sampled_from(["a", "b"]))
    def read_for_update(self, uuid: str, os: str) -> Any:
        stored = self.config.instances.get(InstanceUuid(uuid))
        return multiple() if stored is None else attrs.evolve(stored, os=os)

    @rule(given=updates)
    def update(self, given: Any) -> None:
        """At any time after it was read, and delivered twice."""
        stored = self.config.instances.get(given.uuid)
        # one that was deleted or replaced and made anew counts from the start: that is another object
        assume(stored is None or stored.ctime == given.ctime)
        self.make(lambda config, now: update_object(config, "instances", given, now))
        after = self.config
        if stored is not None and stored.serial_no == given.serial_no:
            assert after.instances[given.uuid].serial_no == given.serial_no + 1
            self.make(lambda config, now: update_object(config, "instances", given, now))
            assert self.config is after

    @invariant()
    def is_sound(self) -> None:
        assert not find_problems(self.config)

    @invariant()
    def disks_are_called_by_their_places_and_are_of_one_instance(self) -> None:
        attached = [uuid for one in self.config.instances.values() for uuid in one.disks]
        assert len(set(attached)) == len(attached)

    @invariant()
    def ports_in_the_pool_are_there_once(self) -> None:
        pool = self.config.cluster.tcpudp_port_pool
        assert len(set(pool)) == len(pool)


TestChanges = Changes.TestCase
