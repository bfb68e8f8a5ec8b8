"""Settings of etcd as a client sees it, and of keeperd.

The times of a mastership follow from its lease alone (`common.lease.times`), so that they always fit each other.

Source: DESIGN section 14; lease.md 8; common/settings.py.
"""

from typing import Final

import attrs

from common.settingwords.settingchecks import not_negative, port, positive
from common.validation import Checked

# seconds; a shorter lease is lost by a pause of a loaded machine
LEAST_TTL_S: Final = 5.0


def _watchdog(_: object, field: Checked, value: str) -> None:
    if value and not value.startswith("/"):
        raise ValueError(f"{field.name} must be the path of a device such as /dev/watchdog, or empty")


def _prefix(_: object, field: Checked, value: str) -> None:
    # `/one` would be the beginning of the keys of `/one2`, too
    if not value.endswith("/"):
        raise ValueError(f"{field.name} must end with '/', as in /gantry/")


@attrs.frozen
class EtcdSettings:
    # URLs of its members, for `replication = "etcd"`
    endpoints: tuple[str, ...] = ()
    # beginning of all keys; of each cluster its own
    prefix: str = attrs.field(default="/gantry/", validator=_prefix)
    # user of etcd, where it asks for one, and the file with the password
    user: str = ""
    password_file: str = ""
    # certificate of the authority that has signed those of the members, for https
    ca_file: str = ""
    # certificate and key of this client, where etcd asks for one; its common name must be empty
    cert_file: str = ""
    key_file: str = ""
    # limit of one request to one member; 0: what fits the lease
    request_timeout_s: float = attrs.field(default=0.0, validator=not_negative)
    # whether releases that are known to lose data are used all the same
    allow_broken_releases: bool = False


@attrs.frozen
class KeeperdSettings:
    # time after which another node takes over when the master is silent
    ttl_s: float = attrs.field(default=10.0, validator=positive)
    # whether a lease may be shorter than 5 s: only for tests
    test_timings: bool = False
    # which candidate goes first when several may become the master: the highest; 0: never by itself
    priority: int = attrs.field(default=1, validator=not_negative)
    # device of a watchdog, which restarts the machine when keeperd cannot stop what must not run on; empty: none
    watchdog: str = attrs.field(default="", validator=_watchdog)
    # its time-out in whole seconds; 0: half of the lease at most
    watchdog_s: int = attrs.field(default=0, validator=not_negative)
    # programs that fence an old master, tried in this order; each is called with the name of the node
    fence: tuple[str, ...] = ()
    # limit of one call of such a program
    fence_timeout_s: float = attrs.field(default=60.0, validator=positive)
    # program that brings the master's address up and down: called with `up` or `down`; empty: there is none
    address_program: str = ""
    # address to listen at for health checks; empty: that of noded
    address: str = ""
    # port for health checks
    port: int = attrs.field(default=1816, validator=port)
    # time after which a candidate that is away holds no changes back any more
    stale_s: float = attrs.field(default=600.0, validator=positive)
