"""Instances: there is no hypervisor here, so none run.

Source: noded.md 6.
"""

from collections.abc import Mapping

from common.shapes import JsonObject
from protocol.noded.instances import (
    AllInstancesInfo,
    FoundInstance,
    InstanceConsoleInfo,
    InstanceFacts,
    InstanceInfo,
    InstanceList,
)


class InstanceHandlers:
    """Truthful replies of a node without instances, so that queries work."""

    async def all_info(self, _: AllInstancesInfo) -> Mapping[str, InstanceFacts]:
        return {}

    async def names(self, _: InstanceList) -> tuple[str, ...]:
        return ()

    async def info(self, _: InstanceInfo) -> FoundInstance:
        return FoundInstance(None)

    async def console_info(self, _: InstanceConsoleInfo) -> Mapping[str, JsonObject]:
        return {}
