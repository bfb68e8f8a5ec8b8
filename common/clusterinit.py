"""Create a cluster: the folders and first files of an installation.

Source: wconfd.md 6.1, 6.2 and 7.9; luxid.md 3.
"""

import re
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from common.durable.atomicfile import FileWrite, write_files
from common.errors import Conflict, InvalidRequest
from common.objects.codec import encode_config
from common.objects.config import Config
from common.objects.initial import MAX_RUNNING_JOBS, NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid
from common.objects.ssconf import file_content, ssconf_values
from common.paths import QUEUE_VERSION, Paths

CONFIG_MODE: Final = 0o640
SSCONF_MODE: Final = 0o444
_PRIVATE_MODE: Final = 0o600

NO_LOCKS: Final = b"[[],[]]"
NO_RESERVATIONS: Final = b'{"dRBD":[],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}'
_FIRST_SERIAL: Final = b"0\n"
# names that a host can have; they are also valid in a lock's name and in a line of ssconf
_NAME: Final = re.compile(r"\w[\w.-]{0,254}")


def create_cluster(
    paths: Paths,
    cluster_name: str,
    node_name: str,
    *,
    primary_ip: str = "127.0.0.1",
    max_running_jobs: int = MAX_RUNNING_JOBS,
    has_nodes: bool = False,
    has_web: bool = False,
) -> Config:
    """Create an installation whose daemons can start: a cluster of one node, with an empty queue.

    If an installation has lost its configuration, its other files are kept, so that no job id is used
    twice and no lock is forgotten.

    Args:
        has_nodes: whether other machines may join; then the certificates of cluster and node are made too.
        has_web: whether HTTP is enabled; then its certificate is made, too.
    Raises:
        InvalidRequest: a name that no cluster or node can have.
        Conflict: there is a configuration already.
        OSError: a folder or file cannot be made.
    Durability: the configuration comes last; after an interruption before that the caller can call again.
    """
    _check_name("cluster", cluster_name)
    _check_name("node", node_name)
    if paths.config_data.exists():
        raise Conflict(
            f"there is a cluster already: '{paths.config_data}'; choose another root, or move its folder away",
            path=str(paths.config_data),
        )
    paths.make_folders()
    config = initial_config(
        cluster_name,
        node_name,
        primary_ip=primary_ip,
        max_running_jobs=max_running_jobs,
        now=time.time(),
        uuids=_new_uuids(),
    )
    if has_nodes:
        config = _with_certificates(paths, config, node_name)
    if has_web:
        # imported late, as above
        from common.nodes.certificates import make_missing_web_certificate

        make_missing_web_certificate(paths.rapi_pem, cluster_name, node_name, primary_ip)
    write_files([FileWrite(path, content, mode) for path, content, mode in _state_files(paths) if not path.exists()])
    write_files(ssconf_writes(paths, {key: file_content(lines) for key, lines in ssconf_values(config).items()}))
    write_files([FileWrite(paths.config_data, encode_config(config).content, CONFIG_MODE)])
    return config


def _with_certificates(paths: Paths, config: Config, node_name: str) -> Config:
    """Make the certificates, and let the node be the one that node daemons obey."""
    # imported late: most clusters are one machine
    from common.nodes.certificates import make_missing

    digest = make_missing(paths, node_name)
    cluster = attrs.evolve(config.cluster, candidate_certs={config.cluster.master_node: digest})
    return attrs.evolve(config, cluster=cluster)


def ssconf_writes(paths: Paths, contents: Mapping[str, bytes]) -> list[FileWrite]:
    """The writes that put the values of ssconf into their files on this node."""
    return [FileWrite(paths.ssconf_file(key), content, SSCONF_MODE) for key, content in contents.items()]


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"no {what} can be named {name!r}; a name has letters, digits, '.', '-' and '_', "
            "and begins with a letter or digit",
            name=name,
        )


def _new_uuids() -> NewUuids:
    return NewUuids(cluster=str(uuid.uuid4()), node=NodeUuid(str(uuid.uuid4())), group=GroupUuid(str(uuid.uuid4())))


def make_key(paths: Paths) -> None:
    """Make the key for questions about the configuration, for a cluster of an earlier release.

    Durability: on return it survives a loss of power.
    """
    write_files([FileWrite(paths.hmac_key, _new_key(), CONFIG_MODE)])


def _new_key() -> bytes:
    return f"{secrets.token_hex(20)}\n".encode()


def _state_files(paths: Paths) -> Iterator[tuple[Path, bytes, int]]:
    yield paths.locks_data, NO_LOCKS, _PRIVATE_MODE
    yield paths.tempres_data, NO_RESERVATIONS, _PRIVATE_MODE
    yield paths.version_file, f"{QUEUE_VERSION}\n".encode(), _PRIVATE_MODE
    yield paths.serial_file, _FIRST_SERIAL, _PRIVATE_MODE
    yield paths.hmac_key, _new_key(), CONFIG_MODE
