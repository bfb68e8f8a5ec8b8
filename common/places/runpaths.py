"""The files of running daemons and jobs: livelocks, messages, sockets, pid files, notes.

Source: DESIGN section 11; wconfd.md 1.1, 6.1.
"""

from pathlib import Path

import attrs

from common.daemons import daemon_named
from common.places.folders import Folders


def launcher_socket(run_folder: Path) -> Path:
    """The socket of the launcher of an installation; in a folder of root's own, beside the folder of the daemons."""
    return run_folder.parent / f"{run_folder.name}-launcher" / "socket"


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
        """Names the silent node that the job's process waits for (`common.queue.silencenotes`)."""
        return self.messages / f"{job_id}.node"

    def asker_note(self, job_id: int) -> Path:
        """Names the user who asked for the end of a job that has a process (`common.queue.askers`)."""
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
        return self.sockets / name

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
        return self.run / daemon_named(daemon).pid_file

    @property
    def supervisor_pid_file(self) -> Path:
        """Held by the process that keeps the daemons running, where systemd does not; ours."""
        return self.run / "gantry-supervisor.pid"

    @property
    def not_master_note(self) -> Path:
        """Says why the daemons of the master do not run here (`common.nodes.mastershipnotes`); ours."""
        return self.run / "gantry-not-master"

    @property
    def no_voting_note(self) -> Path:
        """Lets the daemons of the master run without a vote (`common.nodes.mastershipnotes`); ours."""
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
        """How full etcd is (`common.lease.fullnessfile`); ours."""
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
