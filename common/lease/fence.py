"""What a master proves with each of its writes: that nobody has become the master since.

Theory. A node becomes the master in one transaction that puts the key `master`, with its lease, and raises the number
in the key `epoch`. The create revision of the first and the modification revision of the second are its fence: each of
its transactions compares both, so etcd itself refuses what comes late. The lease alone would not: it says when another
one may try, and a stopped process does not hear that. Both revisions are needed, since one may come back when etcd is
restored from a snapshot.

Source: DESIGN section 14; lease.md 4.
"""

import attrs


@attrs.frozen
class Fence:
    # number of the mastership; raised by each new master
    epoch: int
    # revision at which the key `master` was created by this mastership
    master_revision: int
    # revision at which the key `epoch` was changed by this mastership
    epoch_revision: int
