"""Ways to hold the processes of a command together, so that all of them can be ended.

Theory. A control group holds all processes that a command starts; without special rights none can leave it. In version
2 one write ends a whole group. In version 1 the freezer does it: freeze, signal, thaw. Where neither is usable, the
supervisor's descendants are the group. Versions and mounts do not tell what a system allows, so
this module only lists places worth a trial, the best one first.

Groups are made below our own group: it is ours, or no program owns the tree. But if a service manager has
put us into a subgroup of the one it gave us (`DelegateSubgroup=`), they are made in the group above.

Source: DESIGN section 16; everyday.md a, j.
"""

import enum
import hashlib
import re
from collections.abc import Iterator
from typing import Final

import attrs

# name for `DelegateSubgroup=` in a drop-in of the unit; systemd 254 and later support it
SUBGROUP: Final = "supervisor"
_SUFFIX: Final = ".cg"
# group made at a start, to see whether groups work
TRIAL_GROUP: Final = "trial.cg"
_GROUP: Final = re.compile(r"(?:job-\d+(?:-detached-\d+)?|command-\d+\.\d+\.\d+|trial)\.cg", re.ASCII)


class Way(enum.Enum):
    """The kind of control group; the value is its name in the settings."""

    V2 = "v2"
    V1 = "v1"


@attrs.frozen
class Place:
    """An existing folder in which groups can perhaps be made."""

    way: Way
    folder: str


def places(wanted: str, mounts: str, own: str) -> tuple[Place, ...]:
    """Return the places worth a trial, the best one first.

    Args:
        wanted: `auto`, `v2`, `v1`, or `off`: none.
        mounts: content of /proc/self/mountinfo.
        own: content of /proc/self/cgroup.
    """
    if wanted == "off":
        return ()
    groups = dict(_own_groups(own))
    found = []
    for way, root, point in _mounts(mounts):
        inside = _below(groups.get(way), root)
        if inside is not None and wanted in ("auto", way.value):
            found.append(Place(way, (point.rstrip("/") + inside).rstrip("/") or "/"))
    return tuple(sorted(found, key=lambda place: list(Way).index(place.way)))


def controller_folder(controller: str, mounts: str, own: str) -> str | None:
    """Return the folder of our own group in the tree of a controller of version 1; None: there is no such tree.

    Args: mounts, own: as for `places`.
    """
    lines = (line.split(":", 2) for line in own.splitlines())
    path = next((path for _, names, path in lines if controller in names.split(",")), None)
    for root, point in _trees_of(controller, mounts):
        inside = _below(path, root)
        if inside is not None:
            return point.rstrip("/") + inside
    return None


def _trees_of(controller: str, mounts: str) -> Iterator[tuple[str, str]]:
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and controller in options.split(","):
            root, point = (_unescaped(word) for word in before.split(" ")[3:5])
            yield root, point


def folder_name(run_folder: str) -> str:
    """The name of the folder with the groups of one installation."""
    return f"gantry-{hashlib.sha256(run_folder.encode(errors='surrogateescape')).hexdigest()[:12]}"


def group_name(job_id: int, op_index: int, *, is_detached: bool) -> str:
    """The name of a command's group; no interface file of the kernel has such a name, now or later."""
    return f"job-{job_id}-detached-{op_index}{_SUFFIX}" if is_detached else f"job-{job_id}{_SUFFIX}"


def node_group_name(key: str) -> str:
    """The name of the group of a command that a master runs on this node."""
    return f"command-{key}{_SUFFIX}"


def is_group_name(name: str) -> bool:
    """Whether this is the name of one of our groups."""
    return _GROUP.fullmatch(name) is not None


def _own_groups(text: str) -> Iterator[tuple[Way, str]]:
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield Way.V2, path
        elif "freezer" in controllers.split(","):
            yield Way.V1, path


def _mounts(text: str) -> Iterator[tuple[Way, str, str]]:
    """(way, mounted part of the tree, mount point)"""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = (_unescaped(word) for word in before.split(" ")[3:5])
        if kind == "cgroup2":
            yield Way.V2, root, point
        elif kind == "cgroup" and "freezer" in options.split(","):
            yield Way.V1, root, point


def _below(own: str | None, root: str) -> str | None:
    """Our group as seen from the mount; None: it is outside the mounted part."""
    if own is None:
        return None
    if own.endswith(f"/{SUBGROUP}"):
        own = own.removesuffix(f"/{SUBGROUP}") or "/"
    root = root.rstrip("/")
    if not f"{own}/".startswith(f"{root}/"):
        return None
    return own.removeprefix(root).rstrip("/")


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)
