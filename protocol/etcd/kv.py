"""Keys, values, and transactions of etcd as typed values.

A transaction is a list of comparisons and a list of operations: all operations are carried out in one revision if all
comparisons hold, and none otherwise.

Source: DESIGN section 14; lease.md 4.
"""

import enum
from collections.abc import Sequence

import attrs

from common.errors import GantryError, Unavailable

# number of a lease; as etcd gives it
LeaseId = int


@attrs.frozen
class KeyValue:
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    # 0: no lease
    lease: LeaseId = 0


@attrs.frozen
class Header:
    """What comes with each reply."""

    cluster_id: str
    member_id: str
    # of the whole store
    revision: int
    raft_term: int


class ComparedField(enum.Enum):
    """What is compared of a key; 0 for a key that does not exist."""

    CREATED = "create_revision"
    MODIFIED = "mod_revision"
    LEASE = "lease"


@attrs.frozen
class Equals:
    """Whether this number of a key is this one."""

    key: str
    field: ComparedField
    number: int


@attrs.frozen
class Put:
    key: str
    value: bytes
    # 0: none; a key that is put without its lease loses it
    lease: LeaseId = 0


@attrs.frozen
class Delete:
    """Remove a key, if it is there."""

    key: str
    # whether all keys that begin so are meant
    is_prefix: bool = False


@attrs.frozen
class Get:
    """Read a key, or all keys that begin so, in their order."""

    key: str
    is_prefix: bool = False
    # maximum of keys; 0: all
    limit: int = 0
    # the key to begin after, with `is_prefix`; empty: the first
    after: str = ""
    # 0: the present one
    revision: int = 0
    keys_only: bool = False


@attrs.frozen
class Nested:
    """Operations that are carried out if comparisons of their own hold, in the same revision as the rest.

    etcd counts operations by levels: those of a transaction and the most of any one nested in it are 128 together.
    """

    when: Sequence[Equals]
    then: Sequence[Put | Delete]


Operation = Put | Delete | Get | Nested


@attrs.frozen
class Transaction:
    when: Sequence[Equals]
    then: Sequence[Operation]
    # carried out if a comparison does not hold
    otherwise: Sequence[Operation] = ()


@attrs.frozen
class GetReply:
    """The reply to a `Get`."""

    header: Header
    values: Sequence[KeyValue]
    # whether there are more than the limit
    more: bool = False


@attrs.frozen
class TransactionReply:
    """The reply to a `Transaction`."""

    header: Header
    succeeded: bool
    # of the `Get` operations that were carried out, in order
    found: Sequence[Sequence[KeyValue]] = ()


@attrs.frozen
class WatchEvent:
    """A change of a key that is watched."""

    # with its removal, only the key and the revision of the removal are there
    pair: KeyValue
    is_gone: bool


# What can be wrong with a request to etcd, by what its caller must do about it.
#
# Theory. Of the many texts, codes and shapes in which etcd reports errors, a caller needs to know only this: was it
# certainly refused, and why; or is it unknown what became of it. Unknown is everything that is not surely known.
#
# Source: lease.md 1 and 5.


class EtcdError(GantryError):
    """etcd has refused a request"""

    code = "internal"


class EtcdUnknown(EtcdError, Unavailable):
    """it is not known whether etcd has carried out the request; the same request may be sent again"""

    code = "unavailable"


class EtcdFull(EtcdError, Unavailable):
    """etcd has no space left: it takes no writes and grants no leases until an operator has made room"""

    code = "unavailable"


class EtcdCorrupt(EtcdError, Unavailable):
    """a member of etcd has reported corrupt data: nothing is served"""

    code = "unavailable"


class LeaseGone(EtcdError):
    """the lease has run out, or was revoked"""


class TooLarge(EtcdError):
    """a request has too many operations, or too many bytes; nothing was carried out"""


class EtcdDenied(EtcdError):
    """etcd does not know this user, or does not let it do this; the settings '[etcd]' name user and password"""

    code = "denied"


class Compacted(EtcdError):
    """the revision asked for was compacted; read anew"""


class WatchEnded(EtcdError, Unavailable):
    """a watch has ended, and changes may have been missed; read anew, then watch anew"""

    code = "unavailable"


class UnsafeRelease(EtcdError, Unavailable):
    """a member of etcd runs a release that may lose data when it crashes; upgrade it"""

    code = "unavailable"
