"""The part about instances of the table of the resources whose answer is a job.

Source: rapi.md 5 to 7.
"""

from collections.abc import Mapping
from typing import Final

from common.opcodes.backup import OpBackupExport, OpBackupPrepare, OpBackupRemove
from common.opcodes.instance import (
    OpInstanceCreate,
    OpInstanceMultiAlloc,
    OpInstanceQueryData,
    OpInstanceReinstall,
    OpInstanceRemove,
    OpInstanceRename,
    OpInstanceSetParams,
)
from common.opcodes.instancedisks import (
    OpInstanceActivateDisks,
    OpInstanceDeactivateDisks,
    OpInstanceGrowDisk,
    OpInstanceRecreateDisks,
    OpInstanceReplaceDisks,
)
from common.opcodes.instancelife import (
    OpInstanceFailover,
    OpInstanceMigrate,
    OpInstanceReboot,
    OpInstanceShutdown,
    OpInstanceStartup,
)
from daemons.rapid.ganeti.core import instancewrites
from daemons.rapid.ganeti.core.writes import DRY_RUN, Asking, Body, Source, Write, constant, flag, name, named, text

AN_INSTANCE: Final = "/2/instances/{name:name}"
_INSTANCE: Final[Mapping[str, Source]] = {"instance_name": name}


def _disk(asking: Asking) -> object:
    return int(asking.names["disk_index"])


_ON_INSTANCES: Final = (
    Write("POST", "/2/instances", OpInstanceCreate, DRY_RUN, make=instancewrites.create),
    Write("POST", "/2/instances-multi-alloc", OpInstanceMultiAlloc, DRY_RUN, make=instancewrites.create_many),
    Write(
        "DELETE",
        AN_INSTANCE,
        OpInstanceRemove,
        {**_INSTANCE, **DRY_RUN, "ignore_failures": constant(False)},
    ),
    Write(
        "GET",
        f"{AN_INSTANCE}/info",
        OpInstanceQueryData,
        {"instances": named, "static": flag("static")},
        body=Body.IGNORED,
        ganeti_rights=(),
    ),
    Write(
        "POST",
        f"{AN_INSTANCE}/reboot",
        OpInstanceReboot,
        {
            **_INSTANCE,
            **DRY_RUN,
            "reboot_type": text("type", "hard"),
            "ignore_secondaries": flag("ignore_secondaries"),
        },
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/startup",
        OpInstanceStartup,
        {**_INSTANCE, **DRY_RUN, "force": flag("force"), "no_remember": flag("no_remember")},
        body=Body.IGNORED,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/shutdown",
        OpInstanceShutdown,
        {**_INSTANCE, **DRY_RUN, "no_remember": flag("no_remember")},
    ),
    Write(
        "POST",
        f"{AN_INSTANCE}/reinstall",
        OpInstanceReinstall,
        _INSTANCE,
        make=instancewrites.reinstall,
        more_parameters=instancewrites.OLD_REINSTALL,
    ),
    Write("PUT", f"{AN_INSTANCE}/migrate", OpInstanceMigrate, _INSTANCE),
    Write("PUT", f"{AN_INSTANCE}/failover", OpInstanceFailover, _INSTANCE),
    Write("PUT", f"{AN_INSTANCE}/rename", OpInstanceRename, _INSTANCE),
    Write(
        "PUT",
        f"{AN_INSTANCE}/modify",
        OpInstanceSetParams,
        _INSTANCE,
        body=Body.REQUIRED,
        renames={"custom_beparams": "beparams", "custom_hvparams": "hvparams"},
        amend=instancewrites.with_usb_devices,
    ),
)
_ON_DISKS: Final = (
    Write(
        "POST",
        f"{AN_INSTANCE}/replace-disks",
        OpInstanceReplaceDisks,
        _INSTANCE,
        make=instancewrites.replace_disks,
        more_parameters=instancewrites.OLD_REPLACE,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/activate-disks",
        OpInstanceActivateDisks,
        {**_INSTANCE, "ignore_size": flag("ignore_size")},
        body=Body.IGNORED,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/deactivate-disks",
        OpInstanceDeactivateDisks,
        {**_INSTANCE, "force": flag("force")},
        body=Body.IGNORED,
    ),
    Write("POST", f"{AN_INSTANCE}/recreate-disks", OpInstanceRecreateDisks, _INSTANCE),
    Write(
        "POST",
        f"{AN_INSTANCE}/disk/{{disk_index:number}}/grow",
        OpInstanceGrowDisk,
        {**_INSTANCE, "disk": _disk},
    ),
)
_EXPORTS: Final = (
    Write(
        "PUT",
        f"{AN_INSTANCE}/prepare-export",
        OpBackupPrepare,
        {**_INSTANCE, "mode": text("mode")},
        body=Body.IGNORED,
    ),
    Write(
        "PUT",
        f"{AN_INSTANCE}/export",
        OpBackupExport,
        _INSTANCE,
        renames={"destination": "target_node"},
    ),
    Write("DELETE", f"{AN_INSTANCE}/export", OpBackupRemove, _INSTANCE),
)
ON_INSTANCES: Final = (*_ON_INSTANCES, *_ON_DISKS, *_EXPORTS)
