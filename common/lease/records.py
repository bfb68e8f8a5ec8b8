"""The values of the keys in etcd that are not changes of the master's files: JSON objects.

Unknown keys are dropped on reading, so that a node of the next release may say more.

Source: DESIGN section 14; lease.md 2, 4 and 7.
"""

import enum
from typing import Final, TypeVar

import attrs
import orjson

from common.errors import DamagedFile, GantryError
from common.ids import JobId
from common.shapes import Lenient
from common.wire import structure, unstructure

# The names of what Gantry keeps in etcd.
#
# Theory. One key says who is the master, and goes with its lease. One counts epochs, and stays. All changes that some
# candidate may lack lie under `dirty/` and `config/`; each is put in a transaction that compares the first two keys
# (`common.lease.records`), so that nobody but the present master can write them.
#
# Source: DESIGN section 14; lease.md 4.


@attrs.frozen
class EtcdKeys:
    """Args: prefix: of all keys of this cluster, such as `/gantry/`."""

    prefix: str

    @property
    def master(self) -> str:
        """Who is the master (`records.MasterRecord`); under the master's lease."""
        return f"{self.prefix}master"

    @property
    def epoch(self) -> str:
        """The number of the last mastership, as text; no lease."""
        return f"{self.prefix}epoch"

    @property
    def last_master(self) -> str:
        """Who was the master last, and whether it ended cleanly (`records.LastMaster`); no lease."""
        return f"{self.prefix}last-master"

    @property
    def wanted(self) -> str:
        """What an operator asks of the master (`records.OperatorRequest`)."""
        return f"{self.prefix}wanted"

    @property
    def verdict(self) -> str:
        """What became of an operator's last request (`records.OperatorReply`)."""
        return f"{self.prefix}verdict"

    @property
    def maintenance(self) -> str:
        """Whether the mastership stays where it is (`records.Maintenance`)."""
        return f"{self.prefix}maintenance"

    @property
    def accepted(self) -> str:
        """The last acceptance of a restored etcd (`records.AcceptedRestore`)."""
        return f"{self.prefix}accepted"

    @property
    def history(self) -> str:
        """The last changes of the master, a list of `records.Change`."""
        return f"{self.prefix}history"

    @property
    def upkeep(self) -> str:
        """Put now and then while etcd fills up: it counts compacted space as free only when something changes."""
        return f"{self.prefix}upkeep"

    @property
    def members(self) -> str:
        """The beginning of the keys of all members."""
        return f"{self.prefix}member/"

    def member(self, node: str) -> str:
        """What a candidate says of itself (`records.MemberRecord`); under a lease of its own."""
        return f"{self.members}{node}"

    @property
    def stales(self) -> str:
        return f"{self.prefix}stale/"

    def stale(self, node: str) -> str:
        """There while a candidate was away so long that nothing is kept for it: it may not become the master."""
        return f"{self.stales}{node}"

    @property
    def synceds(self) -> str:
        return f"{self.prefix}synced/"

    def synced(self, node: str) -> str:
        """The epoch of the last master that has compared all files of this candidate with its own, as text."""
        return f"{self.synceds}{node}"

    @property
    def dirty(self) -> str:
        """The beginning of the keys of files that some candidate may lack, by their names below the data folder."""
        return f"{self.prefix}dirty/"

    @property
    def config(self) -> str:
        """The beginning of the keys of changed objects of the configuration."""
        return f"{self.prefix}config/"

    @property
    def running(self) -> str:
        return f"{self.prefix}running/"

    def running_job(self, job_id: JobId) -> str:
        """There while a process may write the job's file (`records.RunningJob`)."""
        return f"{self.running}{job_id}"

    @property
    def parts(self) -> str:
        """The beginning of the keys of parts of large changes (`common.lease.changes`)."""
        return f"{self.prefix}parts/"

    def parts_of(self, writer: str) -> str:
        """Those of the changes of one daemon."""
        return f"{self.parts}{writer}/"

    def sequence(self, writer: str) -> str:
        """Which transaction of a daemon was its last; each moves it, so that one that arrives late is refused."""
        return f"{self.prefix}sequence/{writer}"

    @property
    def kept(self) -> str:
        """The beginning of the keys of small files that stay here for ever, by their names below the data folder."""
        return f"{self.prefix}kept/"

    @property
    def config_base(self) -> str:
        """The serial number that each candidate's configuration must have reached, as text."""
        return f"{self.kept}config.base"


# of `MasterRecord`; a node that knows only lower ones does not campaign
FORMAT: Final = 1
T = TypeVar("T", bound=Lenient)


@attrs.frozen(kw_only=True)
class MasterRecord(Lenient):
    """Who is the master, and by which rules its mastership ends; others judge it by these and not by their settings."""

    node: str
    # made anew by each keeperd for each campaign
    nonce: str
    epoch: int
    # seconds; the lease's, as etcd granted it
    ttl_s: float
    # seconds; time-out of its watchdog; 0: it has none
    watchdog_s: float = 0.0
    # name of the node that it makes way for; empty: for none
    leaving_for: str = ""
    format: int = FORMAT


@attrs.frozen(kw_only=True)
class LastMaster(Lenient):
    """Put with the mastership; without a lease, so that a later master knows who may still act."""

    node: str
    epoch: int
    # of the machine, from the kernel
    boot_id: str
    # seconds, as in `MasterRecord`
    ttl_s: float
    watchdog_s: float = 0.0
    # whether all that ran under it had ended when it gave the mastership up
    clean: bool = False


class Role(enum.Enum):
    """What a member is, for users: the states of keeperd in coarser words."""

    MASTER = "master"
    # becoming the master, or ceasing to be it
    CHANGING = "changing"
    # its last word is that it is the master, but etcd's key of the master is not its own; no record has this
    WAS_MASTER = "was master"
    REPLICA = "replica"
    # may not become the master now
    BARRED = "barred"
    # etcd is older than what this node remembers
    DOUBT = "doubt"
    WAITING = "waiting"
    # its keeperd does not run, or does not reach etcd: there is no record of it
    SILENT = "silent"


@attrs.frozen(kw_only=True)
class MemberRecord(Lenient):
    """What a candidate says of itself; it may be some seconds old."""

    node: str
    # of keeperd's start, to find two machines with one name
    nonce: str
    machine_id: str
    boot_id: str
    # of Gantry
    release: str
    # state of keeperd, in its own words, and for users
    state: str
    role: Role
    # why it is barred or waits; empty: it is not
    reasons: tuple[str, ...] = ()
    # whether it is barred only until the master has compared its files, or until it has caught up
    lacks_copies: bool = False
    # higher ones go first; 0: it never becomes the master by itself
    priority: int = 1
    # highest epoch that it has seen
    epoch: int = 0
    # seconds since the epoch, by its own clock; only for users
    at: float = 0.0


class WantedKind(enum.Enum):
    SWITCHOVER = "switchover"
    # without the master's help
    TAKEOVER = "takeover"


@attrs.frozen(kw_only=True)
class OperatorRequest(Lenient):
    kind: WantedKind
    # name of the node that is to be the master; empty: any
    node: str = ""
    # whether jobs that run on the old master are killed; false: they are waited for
    kill: bool = False
    # seconds after which the master takes it back; 0: never
    limit_s: float = 0.0
    # tells two requests from each other
    nonce: str = ""
    # who asked, for the log
    by: str = ""


@attrs.frozen(kw_only=True)
class OperatorReply(Lenient):
    """What became of a request."""

    # of the request
    nonce: str
    # why it was not fulfilled; empty: it was
    refusal: str = ""


@attrs.frozen(kw_only=True)
class Maintenance(Lenient):
    on: bool
    # the higher number counts, also against what candidates have noted on their disks
    change: int
    by: str = ""


@attrs.frozen(kw_only=True)
class AcceptedRestore(Lenient):
    """An operator has taken etcd as it was after it was restored; put with an epoch that no node has seen."""

    epoch: int
    # whose files count from there on
    node: str
    by: str = ""


@attrs.frozen(kw_only=True)
class RunningJob(Lenient):
    """A job in the hands of a process: on that node the file may be newer than what is in etcd."""

    node: str
    epoch: int
    # what its user has asked for since: cancel, kill; empty: nothing
    ask: str = ""
    # who has asked, in the words of `common.access.caller_text`
    by: str = ""


@attrs.frozen(kw_only=True)
class Change(Lenient):
    """A change of the master, for users."""

    # seconds since the epoch
    at: float
    epoch: int
    node: str
    cause: str


def encode(record: Lenient) -> bytes:
    return orjson.dumps(unstructure(record))


def decode(value: bytes, kind: type[T], key: str) -> T:
    """Raises: DamagedFile: the value is something else; with the key."""
    try:
        return structure(orjson.loads(value), kind, key)
    except (orjson.JSONDecodeError, GantryError) as error:
        raise DamagedFile(
            f"the key '{key}' of etcd has a value that is not ours: {error}; remove it", key=key
        ) from error


# What a master proves with each of its writes: that nobody has become the master since.
#
# Theory. A node becomes the master in one transaction that puts the key `master`, with its lease, and raises the number
# in the key `epoch`. The create revision of the first and the modification revision of the second are its fence: each
# of its transactions compares both, so etcd itself refuses what comes late. The lease alone would not: it says when
# another one may try, and a stopped process does not hear that. Both revisions are needed, since one may come back when
# etcd is restored from a snapshot.
#
# Source: DESIGN section 14; lease.md 4.


@attrs.frozen
class Fence:
    # number of the mastership; raised by each new master
    epoch: int
    # revision at which the key `master` was created by this mastership
    master_revision: int
    # revision at which the key `epoch` was changed by this mastership
    epoch_revision: int


# How full etcd is, and what may still be put there.
#
# Source: lease.md 5.


class Fullness(enum.IntEnum):
    """Each one includes those before."""

    FINE = 0
    # an operator should look
    WARN = 1
    # what can wait should
    SLOW = 2
    # the rest is for what starts and ends jobs and empties etcd
    RESERVED = 3
    # etcd itself refuses all but deletions
    FULL = 4
