"""Settings: one TOML file for an installation, one table and one frozen class for each daemon.

Every key has a default. `common.settingsfile` reads the file; `deploy/gantry.toml.sample` documents all keys.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NewType

import attrs

from common.access import Access, Grantee, Role, grant
from common.daemons import DAEMONS, DAEMONS_USER, GATEWAY, Feature
from common.featuresettings import (
    EtcdSettings,
    HealthSettings,
    KeeperdSettings,
    NotifySettings,
    PluginsSettings,
    RapidSettings,
    RetentionSettings,
)
from common.paths import Paths
from common.queue.terms import is_label_key
from common.system.accounts import group_named, user_named
from common.validation import (
    SWITCHES,
    WAYS_TO_HOLD,
    Checked,
    file_mode,
    list_of,
    not_negative,
    one_of,
    port,
    positive,
    whole_number,
)

# Settings of an installation on more than one machine.
#
# Source: DESIGN sections 12 and 13; common/settings.py.


# one machine; copies of files on the candidates; acknowledged by a majority of etcd, and copied
NO_REPLICATION: Final = "none"
BY_NODES: Final = "nodes"
BY_ETCD: Final = "etcd"
# moments of the reply to a change: after an attempt to copy it, after it is durable here
AFTER_ATTEMPT: Final = "attempt"
AFTER_LOCAL: Final = "local"


def is_on(enabled: str, *, has_nodes: bool) -> bool:
    """Whether a daemon runs. Args: enabled: its switch, see `common.validation.SWITCHES`."""
    return has_nodes if enabled == "auto" else enabled == "yes"


def _label_or_none(_: object, field: Checked, value: str) -> None:
    if value and not is_label_key(value):
        raise ValueError(
            f"'{field.name}' must be the key of a label, 1 to 63 of a-z, 0-9, '.', '_', '/' and '-', got {value!r:.80}"
        )


@attrs.frozen
class ClusterSettings:
    # way in which changes reach the other nodes
    replication: str = attrs.field(default=NO_REPLICATION, validator=one_of((NO_REPLICATION, BY_NODES, BY_ETCD)))
    # name of this node in the configuration; empty: the host's
    node_name: str = ""
    # what a change waits for before it counts, if `replication` is by nodes
    answer_after: str = attrs.field(default=AFTER_ATTEMPT, validator=one_of((AFTER_ATTEMPT, AFTER_LOCAL)))

    @property
    def has_nodes(self) -> bool:
        """Whether there may be more than one machine, so that noded runs here."""
        return self.replication != NO_REPLICATION

    @property
    def has_lease(self) -> bool:
        """Whether the mastership is held under a lease in etcd, so that keeperd runs on the candidates."""
        return self.replication == BY_ETCD

    @property
    def own_name(self) -> str:
        """The name of this node."""
        return self.node_name or os.uname().nodename


@attrs.frozen
class NodedSettings:
    # address to listen at; empty: all
    address: str = ""
    # port of the master for machines that join; it is open only while a token is valid
    join_port: int = attrs.field(default=1812, validator=port)
    port: int = attrs.field(default=1811, validator=port)
    # connections at once, also those whose handshake is not over; each command that is followed has one
    max_clients: int = attrs.field(default=2000, validator=positive)
    # bytes of a request's body
    max_body_bytes: int = attrs.field(default=10 * 2**20, validator=positive)
    # time within which a body must be here
    body_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # time for the TLS handshake
    handshake_timeout_s: float = attrs.field(default=5.0, validator=positive)
    # time without a request after which a connection is closed
    idle_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # time for calls under way when the daemon is told to stop
    stop_timeout_s: float = attrs.field(default=5.0, validator=not_negative)
    # days after which ended commands that no master has had removed are forgotten
    keep_commands_days: float = attrs.field(default=7.0, validator=positive)


@attrs.frozen
class ConfdSettings:
    # whether it runs; automatically: where there may be more than one machine
    enabled: str = attrs.field(default="auto", validator=one_of(SWITCHES))
    # address to listen at; empty: that of noded
    address: str = ""
    port: int = attrs.field(default=1814, validator=port)


@attrs.frozen
class MondSettings:
    # whether it runs; automatically: where there may be more than one machine
    enabled: str = attrs.field(default="auto", validator=one_of(SWITCHES))
    # address to listen at; empty: that of noded
    address: str = ""
    port: int = attrs.field(default=1815, validator=port)


# Read users and groups from the settings, by name or number.
#
# Source: common/settings.py.


# numeric ids; the file may have names instead
Uid = NewType("Uid", int)
Gid = NewType("Gid", int)

# (uid_t) -1, which the kernel never assigns
_NOBODY_ID: Final = 2**32 - 1


def _uid(value: object) -> int:
    return _id_of(value, "user", lambda name: (found := user_named(name)) and found.pw_uid)


def _gid(value: object) -> int:
    return _id_of(value, "group", lambda name: (found := group_named(name)) and found.gr_gid)


def _id_of(value: object, kind: str, look_up: Callable[[str], int | None]) -> int:
    """Raises: TypeError, ValueError: there is none. Unavailable: users or groups cannot be read now."""
    if not isinstance(value, str):
        if not 0 <= (number := whole_number(value)) < _NOBODY_ID:
            raise ValueError(f"no {kind} has the number {number}")
        return number
    if (found := look_up(value)) is None:
        raise ValueError(f"there is no {kind} {value!r} on this machine")
    return found


def _grantee(value: object) -> Grantee:
    """A user; with a leading `@` a group."""
    if not isinstance(value, str) or not value.startswith("@"):
        return Grantee(_uid(value))
    name = value[1:]
    return Grantee(int(name) if name.isascii() and name.isdigit() else _gid(name), is_group=True)


# as `common.validation.READERS`
USER_READERS: Final[Mapping[object, tuple[str, Callable[[object], object]]]] = {
    tuple[Uid, ...]: ("a list of users, by name or number", list_of(_uid)),
    tuple[Grantee, ...]: ("a list of users and @groups, by name or number", list_of(_grantee)),
    tuple[Gid, ...]: ("a list of groups, by name or number", list_of(_gid)),
}


@attrs.frozen
class LuxidSettings:
    max_queued_jobs: int = attrs.field(default=100_000, validator=positive)
    # limit of a new cluster; afterwards `gnt-cluster modify` changes it
    max_running_jobs: int = attrs.field(default=50, validator=positive)
    # time from SIGTERM to SIGKILL for a job that is killed
    kill_grace_s: float = attrs.field(default=10.0, validator=not_negative)
    # time from the request for a job process until it has its livelock
    start_timeout_s: float = attrs.field(default=30.0, validator=positive)
    # argv of an external executor; empty: the fork server
    executor: tuple[str, ...] = ()
    # interval of the backstop behind the events
    sweep_s: float = attrs.field(default=5.0, validator=positive)
    # time that a query waits for the live data of one node; for all nodes together it waits at most twice as long
    live_data_s: float = attrs.field(default=10.0, validator=positive)
    # whether lock weight decides the order; false: jobs of one priority start in the order of their arrival
    predictive: bool = True
    # weight of a job that blocks no other
    lock_weight_base: float = attrs.field(default=1.0, validator=not_negative)
    lock_weight_tick_s: float = attrs.field(default=30.0, validator=positive)
    # ticks after which a job weighs nothing
    lock_weight_ticks: int = attrs.field(default=30, validator=positive)
    # number of later jobs that may take units of a resource before a job that waits for more of them; then they are
    # kept for it
    max_unit_bypass: int = attrs.field(default=8, validator=positive)
    # whether a submission is refused that uses more of a resource than there is; false: the job waits for more
    strict_uses: bool = False
    # key of a label of jobs, for each of whose first values delays and lock waits are counted apart; empty: no label
    metrics_label: str = attrs.field(default="", validator=_label_or_none)
    # wait for a place or for units of resources that is too long; how many jobs wait for longer is a metric
    start_goal_s: float = attrs.field(default=30.0, validator=positive)


@attrs.frozen
class WconfdSettings:
    # interval of the backstop behind the events
    sweep_s: float = attrs.field(default=5.0, validator=positive)
    # age from which a livelock file is swept: processes create theirs before they lock it
    livelock_grace_s: float = attrs.field(default=3.0, validator=not_negative)
    # time without a request after which a connection may be closed
    idle_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # whether the order of lock requests prevents starvation; false: exactly Ganeti's order
    fair: bool = True
    # whether to keep a journal beside locks.data; false: locks.data is written whole at each change, as by Ganeti
    lock_journal: bool = True
    # number of shared grants that may pass a pending exclusive request, if `fair`
    max_bypass: int = attrs.field(default=16, validator=not_negative)
    # whether a node, group, network or instance is changed only by a holder of its lock; false: others are only told of
    require_locks: bool = False
    # time after which orphaned locks are released without a word of its node; 0: never
    ghost_s: float = attrs.field(default=0.0, validator=not_negative)


@attrs.frozen
class LimitsSettings:
    """Bounds that keep one user, or one job, from blocking all others."""

    # connections to a daemon, as far as its limit of descriptors allows
    max_connections: int = attrs.field(default=2000, validator=positive)
    # connections of one user, except root and the daemons' user
    max_connections_per_user: int = attrs.field(default=500, validator=positive)
    # connections reserved for root and the daemons' user
    reserved_connections: int = attrs.field(default=32, validator=not_negative)
    # bytes of unfinished messages and unread replies that a daemon keeps
    max_kept_bytes: int = attrs.field(default=256 * 2**20, validator=positive)
    max_kept_bytes_per_user: int = attrs.field(default=64 * 2**20, validator=positive)
    # jobs of one user that may be queued; 0: half of `max_queued_jobs`. None of these bounds is one of `full`
    max_queued_jobs_per_user: int = attrs.field(default=0, validator=not_negative)
    # queue places, at most half of all, reserved for *operate* and more
    reserved_queue_places: int = attrs.field(default=500, validator=not_negative)
    # jobs of one user that may run where others wait; 0: all but as many as are reserved
    max_running_jobs_per_user: int = attrs.field(default=0, validator=not_negative)
    # running jobs, at most half of all, reserved for *operate* and more
    reserved_running_jobs: int = attrs.field(default=2, validator=not_negative)
    # schedules of one user
    max_schedules_per_user: int = attrs.field(default=500, validator=positive)
    # bytes of a schedule's job as JSON
    max_schedule_bytes: int = attrs.field(default=64 * 2**10, validator=positive)
    # the same of all schedules of one user: their file is written whole at each change and each run of any schedule
    max_schedule_bytes_per_user: int = attrs.field(default=2**20, validator=positive)
    max_job_opcodes: int = attrs.field(default=1000, validator=positive)
    # bytes of a job's opcodes as JSON
    max_job_bytes: int = attrs.field(default=2**20, validator=positive)
    # jobs that one opcode may wait for; as many as one submission of a batch has
    max_opcode_depends: int = attrs.field(default=10_000, validator=positive)
    # locks that one opcode, or one call of wconfd, may name
    max_locks: int = attrs.field(default=4000, validator=positive)
    # items of a list in one call of luxid: names, job ids, conditions, jobs
    max_items: int = attrs.field(default=20_000, validator=positive)


@attrs.frozen
class JobprocSettings:
    # bytes of output kept for one job
    output_max_bytes: int = attrs.field(default=16 * 1024 * 1024, validator=positive)
    # number of last lines of a command's output that go into the result
    output_tail_lines: int = attrs.field(default=20, validator=not_negative)
    # way to hold the processes of a command together
    cgroups: str = attrs.field(default="auto", validator=one_of(WAYS_TO_HOLD))
    # PATH and LANG of commands
    command_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    command_lang: str = "C.UTF-8"
    command_umask: int = attrs.field(default=0o022, validator=file_mode)
    # seconds of silence of a node after which the job of a command there fails, and leaves its locks; 0: never
    lost_node_s: float = attrs.field(default=300.0, validator=not_negative)


@attrs.frozen
class AccessSettings:
    """The users who may connect, and their rights; the daemons' user and root may do everything."""

    # users and groups with the rights of the daemons' user: Ganeti's rule
    uids: tuple[Uid, ...] = ()
    gids: tuple[Gid, ...] = ()
    # holders of roles, see `common.access`
    read: tuple[Grantee, ...] = ()
    submit: tuple[Grantee, ...] = ()
    operate: tuple[Grantee, ...] = ()
    admin: tuple[Grantee, ...] = ()
    # users who may submit in the name of others
    trusted: tuple[Uid, ...] = ()
    socket_mode: int = attrs.field(default=0o660, validator=file_mode)
    # mode without write permission for others: a user who can write to this folder can replace the sockets
    socket_folder_mode: int = attrs.field(default=0o750, validator=file_mode)

    def access(self, own_uid: int) -> Access:
        """The access table for daemons that run as this user."""
        given: dict[Role, tuple[Grantee, ...]] = {
            Role.READ: self.read,
            Role.SUBMIT: self.submit,
            Role.OPERATE: self.operate,
            Role.ADMIN: self.admin,
            Role.FULL: (*map(Grantee, self.uids), *(Grantee(gid, is_group=True) for gid in self.gids)),
        }
        return grant(own_uid, given, self.trusted)


# where a daemon listens that only this machine may ask
LOOPBACK: Final = "127.0.0.1"


@attrs.frozen
class GanetiSettings:
    """Settings for an installation where the daemons replace Ganeti's, among its tools and its other daemons."""

    # whether the processes are named ganeti-luxid and ganeti-wconfd for `ps` and the tools that start and stop daemons
    process_names: bool = False
    # version reported to clients and nodes; empty: our own
    release: str = ""
    # whether to start although other nodes should have copies of configuration and queue, and nobody makes them
    allow_uncopied: bool = False
    # whether luxid has the master's own address brought up by the node daemon
    master_address: bool = False


@attrs.frozen
class Settings:
    paths: Paths
    luxid: LuxidSettings = LuxidSettings()
    wconfd: WconfdSettings = WconfdSettings()
    jobproc: JobprocSettings = JobprocSettings()
    limits: LimitsSettings = LimitsSettings()
    access: AccessSettings = AccessSettings()
    ganeti: GanetiSettings = GanetiSettings()
    cluster: ClusterSettings = attrs.field(factory=ClusterSettings)
    noded: NodedSettings = attrs.field(factory=NodedSettings)
    rapid: RapidSettings = attrs.field(factory=RapidSettings)
    confd: ConfdSettings = attrs.field(factory=ConfdSettings)
    mond: MondSettings = attrs.field(factory=MondSettings)
    etcd: EtcdSettings = attrs.field(factory=EtcdSettings)
    keeperd: KeeperdSettings = attrs.field(factory=KeeperdSettings)
    retention: RetentionSettings = attrs.field(factory=RetentionSettings)
    notify: NotifySettings = attrs.field(factory=NotifySettings)
    health: HealthSettings = attrs.field(factory=HealthSettings)
    plugins: PluginsSettings = attrs.field(factory=PluginsSettings)
    # settings file; None: there is none, and all values are defaults
    source: Path | None = None
    # root folder of a private installation; None: it is the system's
    root: Path | None = attrs.field(default=None, eq=False)

    def access_table(self, own_uid: int) -> Access:
        """The access table for daemons that run as this user. Raises: Unavailable: users cannot be read now."""
        apart = self.users_apart()
        return attrs.evolve(self.access.access(own_uid), apart=frozenset(apart.values()), gateway=apart.get(GATEWAY))

    def users_apart(self) -> Mapping[str, int]:
        """The daemons that have users of their own on this machine, and these; a private installation has none.

        Raises: Unavailable: users cannot be read now.
        """
        if self.root is not None:
            return {}
        found = {daemon.name: user_named(daemon.user) for daemon in DAEMONS if daemon.user}
        return {name: user.pw_uid for name, user in found.items() if user is not None}

    def owners(self, uid: int) -> frozenset[int]:
        """The users, besides root, to whom what a process of this user works with may belong.

        A daemon with a user of its own works with the files of the daemons' user, who does not work with its files.

        Raises: Unavailable: users cannot be read now.
        """
        if uid not in self.users_apart().values() or (daemons := user_named(DAEMONS_USER)) is None:
            return frozenset({uid})
        return frozenset({uid, daemons.pw_uid})

    @property
    def features(self) -> frozenset[Feature]:
        """What is switched on."""
        has_nodes = self.cluster.has_nodes
        switches = {
            Feature.NODES: has_nodes,
            Feature.LEASE: self.cluster.has_lease,
            Feature.HTTP: self.rapid.enabled,
            Feature.QUESTIONS: is_on(self.confd.enabled, has_nodes=has_nodes),
            Feature.MONITORING: is_on(self.mond.enabled, has_nodes=has_nodes),
        }
        return frozenset(feature for feature, is_set in switches.items() if is_set)

    @property
    def confd_address(self) -> str:
        """The address at which confd listens; empty: all."""
        return self.confd.address or self.noded.address

    @property
    def mond_address(self) -> str:
        """The address at which mond listens: of this machine alone, unless its settings name another one."""
        if self.mond.address:
            return self.mond.address
        # nodes that share a machine have loopback addresses of their own
        return self.noded.address if self.noded.address.startswith("127.") else LOOPBACK


# name of a table -> its class, by the fields of `Settings`
CLASSES: Final[Mapping[str, type[attrs.AttrsInstance]]] = {
    field.name: field.type
    for field in attrs.fields(Settings)
    if field.name not in ("paths", "source", "root") and field.type is not None
}
