"""Storage of the cluster: disk templates, the volume group, folders for files, DRBD's helper. Pure.

Whether nodes have a volume group, a folder or a helper, is not asked.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; wconfd.md 7.3 and 7.6.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.objects.cluster import Cluster
from common.objects.entity import Params
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate
from common.opcodes.cluster import OpClusterSetParams
from daemons.jobproc.units.values.diskparameters import changed_disk_parameters
from daemons.jobproc.units.values.readers import DEFAULT

_ON_VOLUMES: Final = frozenset({DiskTemplate.PLAIN, DiskTemplate.DRBD})
# parameter -> disk template whose files lie in the folder
_FOLDERS: Final = {
    "file_storage_dir": DiskTemplate.FILE,
    "shared_file_storage_dir": DiskTemplate.SHAREDFILE,
    "gluster_storage_dir": DiskTemplate.GLUSTER,
}


# as Ganeti's jobs tell
_OF_DRBD: Final = (
    " - WARNING: Changing DRBD parameters only affects devices created in the future, not existing ones",
    " - WARNING: You need to shutdown and start (not reboot!) existing instances to adopt the changes",
    " - WARNING: Alternatively you can swap the secondary node by running "
    "`gnt-instance replace-disks --new-secondary $instance`",
)


def with_storage(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex, notes: list[str]) -> Cluster:
    """The cluster with the opcode's parameters of storage.

    Args: notes: lines for the job's log are added.
    Raises: PrerequisiteError.
    """
    if op.enabled_disk_templates is not None:
        cluster = _with_templates(cluster, op.enabled_disk_templates, config)
    if op.vg_name is not None:
        if (op.vg_name or None) == cluster.volume_group_name:
            notes.append("Cluster LVM configuration already in desired state, not changing")
        cluster = attrs.evolve(cluster, volume_group_name=op.vg_name or None)
    if op.drbd_helper is not None:
        if (op.drbd_helper or None) == cluster.drbd_usermode_helper:
            notes.append("Cluster DRBD helper already in desired state, not changing")
        cluster = attrs.evolve(cluster, drbd_usermode_helper=op.drbd_helper or None)
    for name, template in _FOLDERS.items():
        folder = getattr(op, name)
        if folder is not None:
            cluster = attrs.evolve(cluster, **{name: _folder(name, folder)})  # type: ignore[arg-type]  # all are text
            if folder and template not in cluster.enabled_disk_templates:
                notes.append(f" - WARNING: '{name}' is set, although disk template '{template.value}' is not enabled")
    if op.reserved_lvs is not None:
        cluster = attrs.evolve(cluster, reserved_lvs=_patterns(op.reserved_lvs))
    if op.diskparams:
        _refuse_defaults(op.diskparams)
        cluster = attrs.evolve(cluster, diskparams=changed_disk_parameters(cluster.diskparams, op.diskparams))
        if DiskTemplate.DRBD in op.diskparams:
            notes += _OF_DRBD
    _check(cluster, op, config)
    return cluster


def _refuse_defaults(given: Mapping[DiskTemplate, Params]) -> None:
    """Raises: PrerequisiteError: 'default' is for groups, which inherit, and the cluster does not."""
    for values in given.values():
        for name, value in values.items():
            if value == DEFAULT:
                raise PrerequisiteError(
                    f"'{name}' in 'diskparams' cannot be 'default': the cluster's value is the default", "wrong_input"
                )


def _with_templates(cluster: Cluster, wanted: tuple[DiskTemplate, ...], config: ConfigIndex) -> Cluster:
    if not wanted:
        raise PrerequisiteError("a cluster needs at least one disk template", "wrong_input")
    gone = set(cluster.enabled_disk_templates) - set(wanted)
    for template in sorted(gone, key=lambda each: each.value):
        if user := _user_of(config, {template}):
            raise PrerequisiteError(f"disk template '{template.value}' cannot be disabled: instance '{user}' uses it")
    return attrs.evolve(cluster, enabled_disk_templates=tuple(dict.fromkeys(wanted)))


def _check(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> None:
    """Raises: PrerequisiteError: enabled disk templates lack what they need."""
    enabled = set(cluster.enabled_disk_templates)
    if (
        (op.vg_name is not None or op.enabled_disk_templates)
        and not cluster.volume_group_name
        and enabled & _ON_VOLUMES
    ):
        raise PrerequisiteError("disk templates 'plain' and 'drbd' need a volume group; set 'vg_name'", "wrong_input")
    if op.vg_name == "" and (user := _user_of(config, _ON_VOLUMES)):
        raise PrerequisiteError(f"the volume group cannot be unset: instance '{user}' has disks in it")
    if op.drbd_helper == "" and DiskTemplate.DRBD in enabled:
        raise PrerequisiteError("the DRBD helper cannot be unset while disk template 'drbd' is enabled", "wrong_input")
    for name, template in _FOLDERS.items():
        if getattr(op, name) == "" and template in enabled:
            raise PrerequisiteError(
                f"'{name}' cannot be unset while disk template '{template.value}' is enabled", "wrong_input"
            )
    _check_policy(cluster, op, config)


def _check_policy(cluster: Cluster, op: OpClusterSetParams, config: ConfigIndex) -> None:
    """Raises: PrerequisiteError: the policy allows a disk template that this opcode disables, or allows it anew."""
    enabled, allowed = set(cluster.enabled_disk_templates), set(cluster.ipolicy.disk_templates)
    gone = set(config.cluster.enabled_disk_templates) - enabled
    new = allowed if "disk-templates" in (op.ipolicy or {}) else set()
    if wrong := sorted(template.value for template in allowed & ((gone | new) - enabled)):
        raise PrerequisiteError(
            f"the instance policy allows disk template '{wrong[0]}', which is not enabled; "
            "change both in one job: 'enabled_disk_templates' and 'disk-templates' of 'ipolicy'",
            "wrong_input",
        )


def _user_of(config: ConfigIndex, templates: set[DiskTemplate] | frozenset[DiskTemplate]) -> str | None:
    """The name of an instance with a disk of one of these templates."""
    for instance in config.instances:
        kinds = {disk.dev_type for disk in config.disks(instance)} or {DiskTemplate.DISKLESS}
        if kinds & templates:
            return instance.name or instance.uuid
    return None


def _folder(name: str, path: str) -> str:
    if path and (not posixpath.isabs(path) or posixpath.normpath(path) != path):
        raise PrerequisiteError(f"'{name}' must be a whole path such as /srv/files, got '{path:.100}'", "wrong_input")
    return path


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in texts:
        try:
            re.compile(pattern)
        except re.error as error:
            raise PrerequisiteError(
                f"the pattern '{pattern:.60}' in 'reserved_lvs' cannot be read: {error}", "wrong_input"
            ) from None
    return texts
