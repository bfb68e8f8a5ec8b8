"""Every path of an installation.

Inside the three folders the names are Ganeti's, so the folders can be those of a real Ganeti; our
own files have names that Ganeti does not use.

Source: DESIGN section 11; luxid.md 1.1, 3; wconfd.md 1.1, 3.2, 6.1; noded.md, modes set by ensure-dirs.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import attrs

from common.daemons import daemon_named, start_order
from common.durable.folders import sync_folders
from common.errors import InvalidRequest

# The three folders of an installation.
#
# Source: DESIGN section 11.


@attrs.frozen
class Folders:
    """Where an installation's files lie; all paths are absolute."""

    # folder that survives a restart of the machine
    data: Path
    # folder that need not survive it
    run: Path
    log: Path

    @classmethod
    def under_root(cls, root: Path) -> Self:
        """Those of a private installation in one folder: `lib`, `run` and `log` in it."""
        root = Path(os.path.abspath(root))
        return cls(data=root / "lib", run=root / "run", log=root / "log")


# The files of jobs: the queue and its archive, and what is ours beside them.
#
# Source: luxid.md 1.1, 3; DESIGN section 11.


# version of the queue's folder, stored in its file `version`; others are refused
QUEUE_VERSION: Final = 1
# number of jobs whose archived files share a folder: ids with the same quotient by it
ARCHIVE_FOLDER_JOBS: Final = 10_000
# number of jobs whose waits share a file: ids with the same quotient by it
WAITS_FILE_JOBS: Final = 100


@attrs.frozen
class QueuePaths(Folders):
    """In the folder for data."""

    @cached_property
    def queue(self) -> Path:
        """The files of jobs that are not archived."""
        return self.data / "queue"

    def job_file(self, job_id: int) -> Path:
        """A job."""
        return self.queue / f"job-{job_id}"

    @property
    def serial_file(self) -> Path:
        """The last job id used."""
        return self.queue / "serial"

    @property
    def version_file(self) -> Path:
        """The version of the queue's form."""
        return self.queue / "version"

    @property
    def drain_file(self) -> Path:
        """Exists while the queue is drained."""
        return self.queue / "drain"

    @property
    def queue_lock(self) -> Path:
        """Held by luxid with a POSIX write lock."""
        return self.queue / "lock"

    @cached_property
    def archive(self) -> Path:
        """The files of archived jobs, 10,000 to a folder."""
        return self.queue / "archive"

    def archived_job_file(self, job_id: int) -> Path:
        """An archived job."""
        return self.archive / str(job_id // ARCHIVE_FOLDER_JOBS) / f"job-{job_id}"

    @property
    def output(self) -> Path:
        """The outputs of commands run by jobs; ours."""
        return self.data / "output"

    def output_file(self, job_id: int) -> Path:
        """What the commands of a job have printed."""
        return self.output / f"job-{job_id}"

    def error_output_file(self, job_id: int) -> Path:
        """Standard error of commands that keep it apart."""
        return self.output / f"job-{job_id}.err"

    @property
    def submissions(self) -> Path:
        """The keys that clients gave to their submissions; ours."""
        return self.data / "submissions"

    @property
    def job_logs(self) -> Path:
        """Log lines of running jobs, until the job files have them; ours."""
        return self.data / "joblogs"

    def job_log(self, job_id: int) -> Path:
        """Log lines of a running job."""
        return self.job_logs / f"job-{job_id}"

    @property
    def waits(self) -> Path:
        """What jobs waited for; ours."""
        return self.data / "waits"

    def waits_file(self, job_id: int) -> Path:
        """The waits of all jobs whose ids have the same quotient, live and archived ones."""
        return self.waits / str(job_id // WAITS_FILE_JOBS)

    @property
    def history(self) -> Path:
        """The index of ended jobs; ours, of each node alone. Never copied, and not worth a backup: made anew."""
        return self.data / "history.sqlite"

    @property
    def notify_since(self) -> Path:
        """The instant since when people are told of ended jobs; ours, of each node alone."""
        return self.data / "notify.since"

    @property
    def removals(self) -> Path:
        """Which jobs and histories of waits were removed on purpose; ours, and copied to the candidates."""
        return self.data / "removals"

    @property
    def node_commands(self) -> Path:
        """The commands that masters run on this node, and their output; ours."""
        return self.data / "commands"

    @property
    def damaged(self) -> Path:
        """Unreadable job files that were moved away; ours."""
        return self.data / "queue-damaged"


# The files of running daemons and jobs: livelocks, messages, sockets, pid files, notes.
#
# Source: DESIGN section 11; wconfd.md 1.1, 6.1.


def launcher_socket(run_folder: Path) -> Path:
    """The socket of the launcher of an installation; in a folder of root's own, beside the folder of the daemons."""
    return run_folder.parent / f"{run_folder.name}-launcher" / "socket"


def own_folder(folder: Path, daemon: str) -> Path:
    """The folder of a daemon with a user of its own, beside the folder of all, if there is one; else that of all.

    Who starts the daemon makes it: systemd, as `RuntimeDirectory=` and `LogsDirectory=` say.
    """
    own = folder.with_name(f"{folder.name}-{daemon}")
    return own if daemon_named(daemon).user and own.is_dir() else folder


@attrs.frozen
class RunPaths(Folders):
    """In the folder that need not survive a restart of the machine."""

    @property
    def livelocks(self) -> Path:
        """Files that living processes keep locked; a free one is the proof of a death."""
        return self.run / "livelocks"

    @property
    def messages(self) -> Path:
        """The folder of luxid's messages to job processes."""
        return self.run / "luxidmessages"

    def priority_message(self, job_id: int) -> Path:
        """Holds the new priority of a job until its process has read it."""
        return self.messages / f"{job_id}.prio"

    def pause_message(self, job_id: int) -> Path:
        """While it exists, the job's process stops before its next opcode."""
        return self.messages / f"{job_id}.pause"

    def kill_message(self, job_id: int) -> Path:
        """While it exists, SIGTERM makes the job's process end at once, instead of after the running opcode."""
        return self.messages / f"{job_id}.kill"

    def silence_note(self, job_id: int) -> Path:
        """Names the silent node that the job's process waits for (`common.queue.sidefiles`)."""
        return self.messages / f"{job_id}.node"

    def asker_note(self, job_id: int) -> Path:
        """Names the user who asked for the end of a job that has a process (`common.queue.sidefiles`)."""
        return self.messages / f"{job_id}.asker"

    @property
    def ssconf_lock(self) -> Path:
        """Held by flock while files of ssconf are replaced."""
        return self.run / "ganeti-ssconf.lock"

    @property
    def launcher_socket(self) -> Path:
        """The socket of the launcher; it exists only where one is used."""
        return launcher_socket(self.run)

    @property
    def sockets(self) -> Path:
        """The Unix sockets of the daemons."""
        return self.run / "socket"

    def socket(self, daemon: str) -> Path:
        """The Unix socket of a daemon. Args: daemon: name of a daemon with a Unix socket, from `common.daemons`."""
        name = daemon_named(daemon).socket
        assert name is not None, f"{daemon} has no Unix socket"
        own = own_folder(self.run, daemon)
        return (self.sockets if own == self.run else own) / name

    @property
    def query_socket(self) -> Path:
        """luxid's socket."""
        return self.socket("luxid")

    @property
    def wconfd_socket(self) -> Path:
        """wconfd's socket."""
        return self.socket("wconfd")

    @property
    def forkserver_socket(self) -> Path:
        """The fork server's socket."""
        return self.socket("forkserver")

    @property
    def rapid_socket(self) -> Path:
        """rapid's socket, for users of this machine."""
        return self.socket("rapid")

    def pid_file(self, daemon: str) -> Path:
        """Args: daemon: its name in `common.daemons`."""
        return own_folder(self.run, daemon) / daemon_named(daemon).pid_file

    @property
    def supervisor_pid_file(self) -> Path:
        """Held by the process that keeps the daemons running, where systemd does not; ours."""
        return self.run / "gantry-supervisor.pid"

    @property
    def not_master_note(self) -> Path:
        """Says why the daemons of the master do not run here (`common.nodes.mastership`); ours."""
        return self.run / "gantry-not-master"

    @property
    def no_voting_note(self) -> Path:
        """Lets the daemons of the master run without a vote (`common.nodes.mastership`); ours."""
        return self.run / "gantry-no-voting"

    @property
    def grant_file(self) -> Path:
        """The mastership that keeperd has won for this node (`common.lease.grant`); ours."""
        return self.run / "gantry-grant"

    @property
    def deadline_file(self) -> Path:
        """Until when this node may act as the master (`common.lease.deadline`); ours."""
        return self.run / "gantry-deadline"

    @property
    def fullness_file(self) -> Path:
        """How full etcd is (`common.lease.deadline`); ours."""
        return self.run / "gantry-fullness"

    @property
    def keeperd_socket(self) -> Path:
        """keeperd's socket."""
        return self.socket("keeperd")

    @property
    def start_request(self) -> Path:
        """Written by noded where systemd is to start the daemons of the master; ours."""
        return self.run / "gantry-start-master"

    def notify_socket(self, daemon: str) -> Path:
        """The socket on which the supervisor learns that a daemon is ready; ours."""
        return self.sockets / f"notify-{daemon}"


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
    def may_run_data(self) -> Path:
        """Commands that may still run, for which the locks of their owners are kept; ours."""
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
    def sessions_data(self) -> Path:
        """The sessions of the web page; ours, and absent until somebody has logged in."""
        return self.data / "sessions.data"

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
    def set_aside(self) -> Path:
        """Folders with files of this node that the master had lost, or never had; ours, made when there are some."""
        return self.data / "set-aside"

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
        return own_folder(self.log, daemon) / daemon_named(daemon).log_file

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
