"""What makes a configuration inconsistent: references that lead nowhere, and a cluster that can run nothing.

Source: wconfd.md 7.6.
"""

from collections.abc import Iterator

from common.objects.config import Config

_TABLES = ("nodes", "nodegroups", "instances", "networks", "disks")


def find_problems(config: Config) -> tuple[str, ...]:
    """All that is wrong with the configuration; nothing if it is consistent.

    Cost: O(objects).
    """
    return (*_cluster_problems(config), *_key_problems(config), *_reference_problems(config))


def _cluster_problems(config: Config) -> Iterator[str]:
    cluster = config.cluster
    if not cluster.enabled_hypervisors:
        yield "no hypervisor is enabled"
    for hypervisor in cluster.enabled_hypervisors:
        if hypervisor not in cluster.hvparams:
            yield f"hypervisor '{hypervisor.value}' is enabled, but has no parameters"
    if not cluster.enabled_disk_templates:
        yield "no disk template is enabled"
    if cluster.master_node not in config.nodes:
        yield f"the master node '{cluster.master_node}' is none of the nodes"


def _key_problems(config: Config) -> Iterator[str]:
    for table in _TABLES:
        for key, value in getattr(config, table).items():
            if value.uuid != key:
                yield f"{table}: the object under '{key}' has the uuid '{value.uuid}'"


def _reference_problems(config: Config) -> Iterator[str]:
    for node in config.nodes.values():
        if node.group not in config.nodegroups:
            yield f"node '{node.name}' is in group '{node.group}', which does not exist"
    for uuid, instance in config.instances.items():
        name = instance.name or uuid
        if instance.primary_node is not None and instance.primary_node not in config.nodes:
            yield f"instance '{name}' has the primary node '{instance.primary_node}', which does not exist"
        for disk in instance.disks:
            if disk not in config.disks:
                yield f"instance '{name}' has the disk '{disk}', which does not exist"
