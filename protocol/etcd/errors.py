"""What can be wrong with a request to etcd, by what its caller must do about it.

Theory. Of the many texts, codes and shapes in which etcd reports errors, a caller needs to know only this: was it
certainly refused, and why; or is it unknown what became of it. Unknown is everything that is not surely known.

Source: lease.md 1 and 5.
"""

from common.errors import GantryError, Unavailable


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
