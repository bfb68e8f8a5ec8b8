"""Every path of an installation.

Inside the three folders the names are Ganeti's, so the folders can be those of a real Ganeti; our
own files have names that Ganeti does not use.

Source: DESIGN section 11; luxid.md 1.1, 3; wconfd.md 1.1, 3.2, 6.1; noded.md, modes set by ensure-dirs.
"""

import os
from pathlib import Path
from typing import Final

import attrs

from common.daemons import daemon_named, start_order
from common.durable.folders import sync_folders
from common.errors import InvalidRequest
from common.places.queuepaths import QueuePaths
from common.places.runpaths import RunPaths

# sockaddr_un has 108 bytes, the last one for the NUL
SOCKET_PATH_MAX_BYTES: Final = 107


@attrs.frozen
class Paths(QueuePaths, RunPaths):
    """The places of an installation's files."""

    # data

    @property
    def config_data(self) -> Path:
        """The configuration of the cluster."""
        return self.data / "config.data"

    @property
    def locks_data(self) -> Path:
        """Locks that are held, and requests that wait for some."""
        return self.data / "locks.data"

    @property
    def ghosts_data(self) -> Path:
        """Guards of locks, and the dead owners that they make ghosts of; ours."""
        return self.data / "ghosts.data"

    @property
    def tempres_data(self) -> Path:
        """Temporary reservations: what jobs have taken although the configuration does not say so yet."""
        return self.data / "tempres.data"

    @property
    def schedules_data(self) -> Path:
        """The schedules; ours, and absent until there is one."""
        return self.data / "schedules.data"

    @property
    def resources_data(self) -> Path:
        """The totals of resources; ours, and absent until there is one."""
        return self.data / "resources.data"

    @property
    def server_pem(self) -> Path:
        """Key and certificate of the cluster, the same on all nodes."""
        return self.data / "server.pem"

    @property
    def rapi_pem(self) -> Path:
        """Key and certificate of the HTTP interface."""
        return self.data / "rapi.pem"

    @property
    def hmac_key(self) -> Path:
        """The secret that signs questions about the configuration, and their answers."""
        return self.data / "hmac.key"

    @property
    def client_pem(self) -> Path:
        """Key and certificate of this node."""
        return self.data / "client.pem"

    @property
    def next_key(self) -> Path:
        """The new key of this node, until it has a certificate; ours."""
        return self.data / "client.pem.next"

    @property
    def next_server_pem(self) -> Path:
        """The new key and certificate of the cluster, until all nodes use it; ours, on the master."""
        return self.data / "server.pem.next"

    @property
    def epoch_file(self) -> Path:
        """The highest epoch of a master that this node has seen; ours."""
        return self.data / "epoch"

    @property
    def last_epoch(self) -> Path:
        """The epoch with which luxid of this node has served last; ours, and never copied."""
        return self.data / "epoch.luxid"

    @property
    def lease_memory(self) -> Path:
        """What keeperd remembers of etcd and of its own masterships; ours, and never copied."""
        return self.data / "keeperd.memory"

    @property
    def lost_found(self) -> Path:
        """Folders with files of jobs that an old master had and nobody else; ours, made when there are some."""
        return self.data / "lost+found"

    @property
    def join_tokens(self) -> Path:
        """The folder of the tokens with which machines may join; ours, on the master."""
        return self.data / "join-tokens"

    @property
    def joining(self) -> Path:
        """The folder of a machine that is joining, until it is a node; ours."""
        return self.data / "joining"

    @property
    def rapi(self) -> Path:
        """The folder that says who may call over HTTP; made when somebody is named, or by rapid."""
        return self.data / "rapi"

    @property
    def rapi_users(self) -> Path:
        """The users who may call over HTTP, with their passwords as salted hashes."""
        return self.rapi / "users"

    @property
    def rapi_tokens(self) -> Path:
        """The tokens of programs that call over HTTP; ours."""
        return self.rapi / "tokens"

    @property
    def watcher_pause(self) -> Path:
        """Until when the watcher of Ganeti, or 'gnt-cluster watcher', is paused."""
        return self.data / "watcher.pause"

    def ssconf_file(self, key: str) -> Path:
        return self.data / f"ssconf_{key}"

    # log

    def log_file(self, daemon: str) -> Path:
        """Args: daemon: as for `pid_file`; the job processes share the fork server's log."""
        return self.log / daemon_named(daemon).log_file

    @property
    def supervisor_log(self) -> Path:
        """The log of the process that keeps the daemons running, where systemd does not."""
        return self.log / "gantry-supervisor.log"

    @property
    def commands_log(self) -> Path:
        """The log of unexpected errors in command line programs."""
        return self.log / "commands.log"

    # all of them

    def folders(self) -> frozenset[Path]:
        """All folders of the installation."""
        return frozenset(folder for folder, _ in self._folders())

    def make_folders(self) -> None:
        """Make the missing folders, with their modes; existing folders stay unchanged.

        Those that root makes belong to the owner of the folder for data: the other daemons may not run as root.

        Raises:
            OSError: a folder cannot be made.
        Durability: on return the folders for data survive a loss of power.
        """
        made = [folder for folder, mode in self._folders() if _make_folder(folder, mode)]
        if made and os.geteuid() == 0:
            owner = self.data.stat()
            for folder in made:
                os.chown(folder, owner.st_uid, owner.st_gid)
        # files are synced with their folder, but a lost folder loses its files
        sync_folders(folder.parent for folder in made if folder.is_relative_to(self.data))

    def check_socket_paths(self) -> None:
        """Raises: InvalidRequest: a socket's path is longer than the kernel allows."""
        for path in (self.socket(daemon.name) for daemon in start_order() if daemon.socket is not None):
            size = len(os.fsencode(path))
            if size > SOCKET_PATH_MAX_BYTES:
                raise InvalidRequest(
                    f"the socket path is {size} bytes, at most {SOCKET_PATH_MAX_BYTES} are possible: '{path}'; "
                    "choose a shorter root or run folder",
                    path=str(path),
                )

    def _folders(self) -> tuple[tuple[Path, int], ...]:
        return (
            (self.data, 0o755),
            (self.run, 0o755),
            (self.log, 0o750),
            (self.queue, 0o750),
            (self.archive, 0o750),
            (self.output, 0o750),
            (self.job_logs, 0o750),
            (self.waits, 0o750),
            (self.submissions, 0o750),
            (self.damaged, 0o750),
            (self.livelocks, 0o750),
            (self.messages, 0o750),
            (self.sockets, 0o750),
        )


def _make_folder(folder: Path, mode: int) -> bool:
    """Return whether the folder was missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    # exactly this mode, independent of the umask
    folder.chmod(mode)
    return True
