"""Checks of this node for the verification of the cluster.

A check that is not made here has no key in the reply: who verifies sees that it is missing, and is not told that all
is well.

Source: noded.md 6.
"""

import datetime
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from common.errors import DamagedFile, InvalidRequest
from common.nodes.certificates import certificates_in, fault_of, is_signed_by, read_certificate
from common.objects.config import CONFIG_VERSION
from common.paths import Paths
from common.shapes import JsonObject
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import structure, unstructure
from daemons.noded.files.places import NodePaths
from daemons.noded.handlers.facts import hypervisor_facts, missing_bridges
from protocol.noded.facts import NodeVerify, NodeVerifyLight

# time in which a node must accept a connection
_CONNECT_S: Final = 5.0
# not a check, but the nodes that can have no instances, and the checks that are left out there
_NO_INSTANCES: Final = "nonvmnodes"
_OF_INSTANCES: Final = ("hvinfo", "instancelist")
_NEEDED_FOLDERS: Final = (Path("/proc/sys"), Path("/sys/block"))
_MICROSECONDS: Final = 1_000_000
# Ganeti's words for the weight of a finding
_ERROR: Final = "ERROR"
_WARNING: Final = "WARNING"
_log: Final = get_log(__name__)

Check = Callable[[object], Awaitable[object]]


class VerifyHandlers:
    """Args: port: that of all node daemons. release: what this node says of its version."""

    def __init__(self, paths: Paths, places: NodePaths, own_name: str, port: int, release: str) -> None:
        self._paths = paths
        self._places = places
        self._own_name = own_name
        self._port = port
        self._release = release
        self._checks: Mapping[str, Check] = {
            "filelist": self._files,
            "node-net-test": self._node_net,
            "master-ip": self._master_ip,
            "version": self._version,
            "time": self._time,
            "nodesetup": self._node_setup,
            "bridges": self._missing_bridges,
            "user-scripts": self._user_scripts,
            "oob-paths": self._oob_paths,
            "client-cert": self._client_certificate,
            "hvinfo": self._hypervisor_facts,
            "instancelist": self._instances,
        }

    async def verify(self, call: NodeVerify) -> JsonObject:
        """Raises: InvalidRequest: an argument of a check is wrong. OSError."""
        return await self._run(call.checkdict)

    async def verify_light(self, call: NodeVerifyLight) -> JsonObject:
        return await self._run(call.checkdict)

    async def _run(self, asked: JsonObject) -> JsonObject:
        if unknown := sorted(set(asked) - set(self._checks) - {_NO_INSTANCES}):
            _log.info("verify.not_checked", checks=",".join(unknown))
        instances = () if self._own_name not in _texts(asked.get(_NO_INSTANCES, ()), _NO_INSTANCES) else _OF_INSTANCES
        return {
            name: await self._checks[name](what)
            for name, what in asked.items()
            if name in self._checks and name not in instances
        }

    async def _files(self, what: object) -> object:
        paths = {name: self._places.path(name) for name in _texts(what, "filelist")}
        return await in_thread(_digests, paths)

    async def _version(self, _: object) -> object:
        return [CONFIG_VERSION, self._release]

    async def _time(self, _: object) -> object:
        return list(divmod(time.time_ns() // 1000, _MICROSECONDS))

    async def _node_setup(self, _: object) -> object:
        return [f"the folder '{folder}' is missing" for folder in _NEEDED_FOLDERS if not folder.is_dir()]

    async def _missing_bridges(self, what: object) -> object:
        return missing_bridges(_texts(what, "bridges"))

    async def _user_scripts(self, what: object) -> object:
        return [name for name in _texts(what, "user-scripts") if not _is_program(Path(name))]

    async def _oob_paths(self, what: object) -> object:
        return [
            [True, None] if _is_program(Path(name)) else [False, f"'{name}' is not a program"]
            for name in _texts(what, "oob-paths")
        ]

    async def _client_certificate(self, _: object) -> object:
        return await in_thread(self._judge_certificate)

    async def _hypervisor_facts(self, _: object) -> object:
        return unstructure(await in_thread(hypervisor_facts))

    async def _instances(self, _: object) -> object:
        return []

    async def _master_ip(self, what: object) -> object:
        _, address, testers = structure(what, tuple[str, str, tuple[str, ...]], "master-ip")
        return await self._reaches(address) if self._own_name in testers else None

    async def _node_net(self, what: object) -> object:
        """The nodes that cannot be reached, each with what fails; the test is made by some of the nodes only."""
        rows, testers = structure(what, tuple[tuple[tuple[object, ...], ...], tuple[str, ...]], "node-net-test")
        failures: dict[str, str] = {}
        if self._own_name not in testers:
            return failures
        nodes = [_node_addresses(row) for row in rows]
        if self._own_name not in [name for name, _ in nodes]:
            failures[self._own_name] = "this node is not in the list of nodes"
        async with trio.open_nursery() as nursery:
            for name, addresses in nodes:
                nursery.start_soon(self._test_node, name, addresses, failures)
        return failures

    async def _test_node(self, name: str, addresses: Sequence[str], failures: dict[str, str]) -> None:
        kinds = ("primary", "secondary")
        failed = [kind for kind, address in zip(kinds, addresses, strict=False) if not await self._reaches(address)]
        if failed:
            failures[name] = f"failure using the {' and '.join(failed)} interface(s)"

    async def _reaches(self, address: str) -> bool:
        with trio.move_on_after(_CONNECT_S):
            try:
                stream = await trio.open_tcp_stream(address, self._port)
            except OSError:
                return False
            await trio.aclose_forcefully(stream)
            return True
        return False

    def _judge_certificate(self) -> object:
        """Ganeti's pair: the weight of the finding and its text, or null and the digest of a good certificate."""
        path = self._paths.client_pem
        try:
            content, server = path.read_bytes(), self._paths.server_pem.read_bytes()
            certificate = read_certificate(content)
            is_ours = any(is_signed_by(content, each) for each in certificates_in(server))
        except FileNotFoundError as error:
            return [_ERROR, f"'{error.filename}' is missing"]
        except DamagedFile as error:
            return [_ERROR, f"'{path}': {error.message}"]
        now = datetime.datetime.now(datetime.UTC)
        if not is_ours:
            return [_ERROR, f"'{path}' was not signed by the certificate of the cluster"]
        if (fault := fault_of(certificate, now)) is not None:
            return [_WARNING if certificate.is_valid_at(now) else _ERROR, f"'{path}' {fault}"]
        return [None, certificate.digest]


def _texts(what: object, check: str) -> Sequence[str]:
    return structure(what, tuple[str, ...], check)


def _node_addresses(row: Sequence[object]) -> tuple[str, Sequence[str]]:
    """A node's name and its addresses; further elements are left out."""
    match row:
        case [str(name), str(primary), str(secondary), *_]:
            return name, (primary,) if secondary == primary else (primary, secondary)
        case _:
            raise InvalidRequest(
                f"invalid node-net-test: expected name, primary and secondary address, got {row!r:.80}"
            )


def _digests(paths: Mapping[str, Path]) -> Mapping[str, str]:
    """The SHA1 of those files that exist, by the names that they were asked for by."""
    found: dict[str, str] = {}
    for name, path in paths.items():
        try:
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            continue
    return found


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
