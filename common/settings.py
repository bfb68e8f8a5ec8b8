"""Settings: one TOML file for an installation, one table and one frozen class for each daemon.

Every key has a default. `common.settingsfile` reads the file; `deploy/gantry.toml.sample` documents all keys.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from common.access import Access, Grantee, Role, grant
from common.daemons import Feature
from common.lease.leasesettings import EtcdSettings, KeeperdSettings
from common.nodes.nodesettings import ClusterSettings, ConfdSettings, MondSettings, NodedSettings, is_on
from common.paths import Paths
from common.settingwords.healthsettings import HealthSettings
from common.settingwords.notifysettings import NotifySettings
from common.settingwords.pluginsettings import PluginsSettings
from common.settingwords.retentionsettings import RetentionSettings
from common.settingwords.settingchecks import file_mode, not_negative, positive, way_to_hold
from common.settingwords.settingusers import Gid, Uid
from common.webaccess.rapidsettings import RapidSettings


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
    # time after which a ghost's locks are released without a word of its node; 0: never
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
    cgroups: str = attrs.field(default="auto", validator=way_to_hold)
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
