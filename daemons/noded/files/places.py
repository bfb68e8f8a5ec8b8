"""The files that callers may write: closed lists, from names on the wire to paths of this node.

No name leads out of its folder: it is absolute and normal, it must be in a list, and a folder below the queue that is a
link is refused.

Source: noded.md 6, 7 and 10.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.folders import sync_folders
from common.errors import Denied
from common.paths import Paths
from common.system.accounts import group_named, user_named
from protocol.noded.files import GROUPS, UNCHANGED, USERS, WireNames

# serial, live jobs and archived ones; ids as long as a 64-bit number
_QUEUE_FILE: Final = re.compile(r"serial|(archive/\d{1,15}/)?job-\d{1,19}", re.ASCII)
# files that may be uploaded: below the folder for data, and elsewhere
_DATA_FILES: Final = (
    "config.data",
    "known_hosts",
    "rapi.pem",
    "spice.pem",
    "spice-ca.pem",
    "rapi/users",
    # ours
    "rapi/tokens",
    "schedules.data",
    "resources.data",
    "sessions.data",
    "hmac.key",
    "cluster-domain-secret",
)
_SYSTEM_FILES: Final = (
    "/etc/ganeti/vnc-cluster-password",
    "/etc/ganeti/kvm-vif-bridge",
    "/etc/ganeti/vif-ganeti",
    "/etc/xen/xl.conf",
)
_HYPERVISORS: Final = ("chroot", "fake", "kvm", "lxc", "xen-hvm", "xen-pvm")
SSCONF_KEYS: Final = frozenset(
    (
        "cluster_name",
        "cluster_tags",
        "file_storage_dir",
        "shared_file_storage_dir",
        "gluster_storage_dir",
        "master_candidates",
        "master_candidates_ips",
        "master_candidates_certs",
        "master_ip",
        "master_netdev",
        "master_netmask",
        "master_node",
        "node_list",
        "node_primary_ips",
        "node_secondary_ips",
        "node_vm_capable",
        "offline_nodes",
        "online_nodes",
        "primary_ip_family",
        "instance_list",
        "release_version",
        "hypervisor_list",
        "maintain_node_health",
        "uid_pool",
        "nodegroups",
        "networks",
        "enabled_user_shutdown",
        "ssh_ports",
        *(f"hvparams_{name}" for name in _HYPERVISORS),
    )
)


class NodePaths:
    """The places of one node. Args: root: of a private installation; None: names travel unchanged."""

    def __init__(self, paths: Paths, names: WireNames) -> None:
        self._paths = paths
        self._names = names
        outside = [names.root / name.removeprefix("/") if names.root else Path(name) for name in _SYSTEM_FILES]
        self._uploads = frozenset([*(paths.data / name for name in _DATA_FILES), *outside])

    def path(self, name: str) -> Path:
        """The path of a name on the wire. Raises: InvalidRequest: it is not absolute or normal, or of another root."""
        return self._names.from_wire(name)

    def queue_file(self, name: str) -> Path:
        """A file of the queue.

        Raises: InvalidRequest: as `path`. Denied: not such a file, or reached over a link. OSError.
        """
        path = self.path(name)
        queue = self._paths.queue
        if not path.is_relative_to(queue) or not _QUEUE_FILE.fullmatch(str(path.relative_to(queue))):
            raise Denied(f"'{name}' is not a file of the queue: serial, job-N, or archive/M/job-N in '{queue}'")
        _refuse_links(path, queue)
        return path

    def state_file(self, name: str) -> Path:
        """A file of the master's state. Args: name: a permitted one, see `protocol.noded.statefiles`.

        Raises: Denied: it is reached over a link. OSError.
        """
        path = self._paths.data / name
        _refuse_links(path, self._paths.data)
        return path

    def state_folder(self, name: str) -> Path:
        """A folder of the master's state, otherwise as `state_file`."""
        path = self.state_file(name)
        _refuse_link(path)
        return path

    def upload(self, name: str) -> Path:
        """A file that may be uploaded. Raises: InvalidRequest: as `path`. Denied: it is not in the list."""
        path = self.path(name)
        if path in self._uploads:
            return path
        if name in UNCHANGED and self._names.root is None:
            return path
        raise Denied(
            f"'{name}' may not be uploaded to this node; only {', '.join(_DATA_FILES)} and files of hypervisors may"
        )

    def is_below_data(self, path: Path) -> bool:
        """Whether a file is in the folder for data, in which folders are ours to make."""
        return path.is_relative_to(self._paths.data)

    def ssconf(self, keys: Sequence[str]) -> Mapping[str, Path]:
        """The files of these keys of ssconf. Raises: Denied: an unknown key."""
        unknown = sorted(set(keys) - SSCONF_KEYS)
        if unknown:
            raise Denied(f"unknown key of ssconf: {', '.join(f'{key!r:.40}' for key in unknown[:3])}")
        return {key: self._paths.ssconf_file(key) for key in keys}


def _refuse_links(path: Path, top: Path) -> None:
    """Refuse links among the folders on the way from the top."""
    for folder in path.relative_to(top).parents[:-1]:
        _refuse_link(top / folder)


def _refuse_link(folder: Path) -> None:
    try:
        mode = os.lstat(folder).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise Denied(f"'{folder}' is a link or a file, not a folder; take it away")


# The owners of the files that noded writes.
#
# Theory. luxid and wconfd read these files after this node has become the master. As root, noded gives files to the
# owner of the folder they are in; as an ordinary user it can give nothing away, and is that owner. Callers name
# Ganeti's users, which a Gantry need not have; a name that is not one of them is refused.
#
# Source: noded.md 6 and 9.


# user and group
Owner = tuple[int, int]


def owner_of_files_in(folder: Path) -> Owner | None:
    """The owner for a file in this folder; None: this process's user. Raises: OSError."""
    if os.geteuid() != 0:
        return None
    status = os.stat(folder)
    return status.st_uid, status.st_gid


def put_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file, for the owner of the files in its folder. Raises: OSError: it has its old content.

    Durability: on return it survives a loss of power.
    """
    owner = owner_of_files_in(path.parent)
    durably(lambda: write_files([FileWrite(path, content, mode, owner=owner)]))


def make_folder(folder: Path, mode: int, owner: Owner | None = None) -> None:
    """Make a folder, unless it is there. Raises: OSError. Durability: it survives a loss of power."""
    if folder.is_dir():
        return
    folder.mkdir(mode, exist_ok=True)
    folder.chmod(mode)
    if owner is not None:
        os.chown(folder, *owner)
    durably(lambda: sync_folders([folder.parent]))


def named_owner(user: str, group: str, folder: Path) -> Owner | None:
    """The owner that a caller names, or the folder's, where the machine does not know the names.

    Raises: Denied: this is not a user, or a group, of the daemons. Unavailable: users cannot be read now. OSError.
    """
    if user not in USERS:
        raise Denied(f"files cannot be given to the user '{user}'; known are {', '.join(sorted(USERS))}")
    if group not in GROUPS:
        raise Denied(f"files cannot be given to the group '{group}'; known are {', '.join(sorted(GROUPS))}")
    owner = owner_of_files_in(folder)
    if owner is None:
        return None
    found, found_group = user_named(user), group_named(group)
    return owner if found is None or found_group is None else (found.pw_uid, found_group.gr_gid)
