"""What runs on a node: facts of its instances.

Source: noded.md sections 4 and 6.
"""

from collections.abc import Mapping
from typing import Final, Self

import attrs

from common.shapes import JsonObject, Lenient, OwnForm
from common.wire import structure, unstructure
from protocol.noded.call import URGENT_S, NodeCall

# values of `InstanceFacts.state`
RUNNING: Final = 0
SHUT_DOWN: Final = 1


@attrs.frozen
class InstanceFacts(Lenient):
    # MiB
    memory: int
    vcpus: int
    state: int
    # processor time, seconds
    time: float


@attrs.frozen
class FoundInstance(OwnForm):
    """The facts of one instance; `{}` on the wire if it is not there."""

    facts: InstanceFacts | None

    def to_wire(self) -> object:
        return {} if self.facts is None else unstructure(self.facts)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        return cls(None if value == {} else structure(value, InstanceFacts, "facts of an instance"))


@attrs.frozen
class AllInstancesInfo(NodeCall[Mapping[str, InstanceFacts]]):
    """The instances that run here, by name."""

    METHOD = "all_instances_info"
    LIMIT_S = URGENT_S
    hypervisor_list: tuple[str, ...]
    # name of a hypervisor -> its parameters
    all_hvparams: Mapping[str, JsonObject]


@attrs.frozen
class InstanceList(NodeCall[tuple[str, ...]]):
    """The names of the instances that run here."""

    METHOD = "instance_list"
    LIMIT_S = URGENT_S
    hypervisor_list: tuple[str, ...]
    hvparams: Mapping[str, JsonObject]


@attrs.frozen
class InstanceInfo(NodeCall[FoundInstance]):
    METHOD = "instance_info"
    LIMIT_S = URGENT_S
    instance: str
    hname: str
    hvparams: JsonObject


@attrs.frozen
class ConsoleSubject(Lenient):
    """An instance whose console is asked, with all that its hypervisor must know."""

    instance: JsonObject
    node: JsonObject
    group: JsonObject
    hvParams: JsonObject
    beParams: JsonObject


@attrs.frozen
class InstanceConsoleInfo(NodeCall[Mapping[str, JsonObject]]):
    """How to reach the consoles of instances, by name; the request is one object instead of a list."""

    METHOD = "instance_console_info"
    LIMIT_S = URGENT_S
    instances: Mapping[str, ConsoleSubject]

    def to_wire(self) -> object:
        return unstructure(self.instances)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        return super().from_wire([value])
