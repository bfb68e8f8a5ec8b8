"""Names of files on the wire.

Theory. Nodes that share a machine keep their files below a root each, `/x/node1`, and cannot send their full paths to
each other. There, names travel as `/###-VIRTUAL-PATH-###,` and the path below the sender's root; the receiver
demands that prefix and puts its own root in front. `/etc/hosts` belongs to the machine and travels unchanged.
Without a root, all names travel unchanged.

Source: noded.md section 7.
"""

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import attrs

from common.errors import InvalidRequest

PREFIX: Final = "/###-VIRTUAL-PATH-###,"
UNCHANGED: Final = frozenset({"/etc/hosts"})
ROOT_VARIABLE: Final = "GANETI_ROOTDIR"
HOST_VARIABLE: Final = "GANETI_HOSTNAME"


@attrs.frozen
class WireNames:
    """Converts paths of this node to names on the wire, and back."""

    # absolute and normal; None: names travel unchanged
    root: Path | None = None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """The root that Ganeti's variables name, if they do.

        Raises: InvalidRequest: only one of them is set, or the root is not an absolute path that ends in the host name.
        """
        root, host = environment.get(ROOT_VARIABLE), environment.get(HOST_VARIABLE)
        if not root and not host:
            return cls()
        if not root or not host:
            raise InvalidRequest(f"{ROOT_VARIABLE} and {HOST_VARIABLE} belong together; set both or none")
        if not _is_normal(root) or posixpath.basename(root) != host:
            raise InvalidRequest(f"{ROOT_VARIABLE} '{root}' must be an absolute path whose last part is '{host}'")
        return cls(Path(root))

    @classmethod
    def of_installation(cls, root: Path | None, environment: Mapping[str, str]) -> Self:
        """Those of an installation: the root of Ganeti's variables, else its private root, if it has one.

        Raises: InvalidRequest: as `of_environment`.
        """
        names = cls.of_environment(environment)
        return names if names.root is not None else cls(root)

    def to_wire(self, path: Path) -> str:
        """Raises: InvalidRequest: the path is not absolute, has '..' in it, or is not below the root."""
        name = str(path)
        _check_normal(name)
        if self.root is None or name in UNCHANGED:
            return name
        # by text: a comparison of copies asks for a name for each job
        root = str(self.root).rstrip("/")
        if not name.startswith(f"{root}/"):
            raise InvalidRequest(f"'{name}' is not below the root of this node, '{self.root}'")
        return f"{PREFIX}{name.removeprefix(root)}"

    def from_wire(self, name: str) -> Path:
        """The path on this node. It is absolute, has no '..' in it, and lies below the root, if there is one.

        Raises: InvalidRequest: the name is not absolute or normal, or lacks the prefix, or has one without a root here.
        """
        bare = name.removeprefix(PREFIX)
        _check_normal(bare)
        if self.root is None:
            if bare != name:
                raise InvalidRequest(f"'{name}' is the name of a virtual cluster, and this node is in none")
            return Path(bare)
        if name in UNCHANGED:
            return Path(name)
        if bare == name:
            raise InvalidRequest(f"'{name}' is not a virtual path; nodes with a root of their own want '{PREFIX}'")
        return self.root / bare.removeprefix("/")


def _check_normal(name: str) -> None:
    if not _is_normal(name):
        raise InvalidRequest(f"'{name}' must be an absolute path without '.', '..' or doubled slashes")


def _is_normal(name: str) -> bool:
    # normpath keeps two slashes at the beginning
    return name.startswith("/") and name[1:2] != "/" and posixpath.normpath(name) == name and "\0" not in name
