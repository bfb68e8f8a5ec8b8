"""How the processes of a command are held together, so that all of them can be ended: which ways there may be.

Theory. A control group holds all that a command starts; nothing escapes from it without rights. Of version 2
one write ends a whole group. Of version 1 the freezer does: freeze, signal, thaw. Where neither may be used the
supervisor's descendants are the group. What a system allows cannot be told by versions and mounts, so
what stands here are only places that are worth a try, the best one first.

We build below the group that we are in: it is ours, or the tree is nobody's. Only if a service manager has
put us into a group of its making below the one it gave us (`DelegateSubgroup=`), it is the group above.

Source: DESIGN section 16; everyday.md a, j.
"""

import enum
import hashlib
import re
from collections.abc import Iterator
from typing import Final

import attrs

# as a drop-in of the unit may have it in `DelegateSubgroup=`, which systemd knows since 254
SUBGROUP: Final = "supervisor"
_SUFFIX: Final = ".cg"
# made at a start, to see whether it works
TRIAL_GROUP: Final = "trial.cg"
_GROUP: Final = re.compile(r"(?:job-\d+(?:-detached-\d+)?|trial)\.cg", re.ASCII)


class Way(enum.Enum):
    """What kind of control group; the value is its name in the settings."""

    V2 = "v2"
    V1 = "v1"


@attrs.frozen
class Place:
    """A folder in which groups may perhaps be made; it exists."""

    way: Way
    folder: str


def places(wanted: str, mounts: str, own: str) -> tuple[Place, ...]:
    """The places worth a try, the best one first.

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
    """The folder of our own group in the tree of a controller of version 1; None: there is no such tree here.

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
    """Of the folder that holds the groups of one installation."""
    return f"gantry-{hashlib.sha256(run_folder.encode(errors='surrogateescape')).hexdigest()[:12]}"


def group_name(job_id: int, op_index: int, *, is_detached: bool) -> str:
    """A name that no interface file of the kernel has, now or later."""
    return f"job-{job_id}-detached-{op_index}{_SUFFIX}" if is_detached else f"job-{job_id}{_SUFFIX}"


def is_group_name(name: str) -> bool:
    """Whether it is the name of a group of ours."""
    return _GROUP.fullmatch(name) is not None


def _own_groups(text: str) -> Iterator[tuple[Way, str]]:
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield Way.V2, path
        elif "freezer" in controllers.split(","):
            yield Way.V1, path


def _mounts(text: str) -> Iterator[tuple[Way, str, str]]:
    """(way, what of the tree is mounted, where)"""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = (_unescaped(word) for word in before.split(" ")[3:5])
        if kind == "cgroup2":
            yield Way.V2, root, point
        elif kind == "cgroup" and "freezer" in options.split(","):
            yield Way.V1, root, point


def _below(own: str | None, root: str) -> str | None:
    """Our group as seen from the mount; None: it is not in what is mounted."""
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
