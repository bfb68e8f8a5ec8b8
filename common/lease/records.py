"""The values of the keys in etcd that are not changes of the master's files: JSON objects.

Unknown keys are dropped on reading, so that a node of the next release may say more.

Source: DESIGN section 14; lease.md 2, 4 and 7.
"""

import enum
from typing import Final, TypeVar

import attrs
import orjson

from common.errors import DamagedFile, GantryError
from common.shapes import Lenient
from common.wire import structure, unstructure

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
class Wanted(Lenient):
    kind: WantedKind
    # name of the node that is to be the master; empty: any
    node: str = ""
    # whether jobs that run on the old master are killed; false: they are waited for
    kill: bool = False
    # seconds after which the master takes it back; 0: never
    limit_s: float = 0.0
    # tells two wishes from each other
    nonce: str = ""
    # who asked, for the log
    by: str = ""


@attrs.frozen(kw_only=True)
class Verdict(Lenient):
    """What became of a wish."""

    # of the wish
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
class Accepted(Lenient):
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
