"""Settings of features, a table for each: etcd, keeperd, rapid, notifications, retention, health, plug-ins."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from common.validation import READERS, Checked, not_negative, one_of, port, positive

# Settings of etcd as a client sees it, and of keeperd.
#
# The times of a mastership follow from its lease alone (`common.lease.times`), so that they always fit each other.
#
# Source: DESIGN section 14; lease.md 8; common/settings.py.


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


# Settings of rapid, the daemon for HTTP.
#
# Source: DESIGN section 15; rapi.md 1; common/settings.py.


# the word in `trusted_proxies` for the Unix socket
OVER_SOCKET: Final = "unix"
# scheme, port; the host is a name, in the form of the wire, or an address
_ORIGIN: Final = re.compile(r"(https?)://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?", re.ASCII)
_OWN_PORTS: Final = {"http": "80", "https": "443"}
_PROXY_HEADERS: Final = ("X-Forwarded-For", "Forwarded")


def _proxies(_: object, field: Checked, value: Sequence[str]) -> None:
    for text in value:
        try:
            if text != OVER_SOCKET:
                ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(
                f"{field.name}: '{text}' is neither an address or network such as '192.0.2.1' or '10.0.0.0/8', "
                f"nor '{OVER_SOCKET}'"
            ) from None


def _origins(_: object, field: Checked, value: Sequence[str]) -> None:
    for text in value:
        if not _is_origin(text):
            raise ValueError(
                f"{field.name}: '{text}' is no origin as browsers write it, such as 'https://tools.example.org' or "
                "'http://localhost:8080': in small letters, without a path or the scheme's own port; '*' is none"
            )


def _is_origin(text: str) -> bool:
    found = _ORIGIN.fullmatch(text)
    return found is not None and found[2] != _OWN_PORTS[found[1]] and (not found[2] or 1 <= int(found[2]) <= 65535)


@attrs.frozen
class RapidSettings:
    # whether it runs
    enabled: bool = False
    # address to listen at; empty: all
    address: str = ""
    port: int = attrs.field(default=5080, validator=port)
    # whether connections are encrypted, except over the Unix socket
    ssl: bool = True
    # file of the certificate; empty: rapi.pem of the installation
    certificate: str = ""
    # file of its key; empty: it is in the same file
    key: str = ""
    # whether callers without a name may read, as strangers: no environment, arguments, results and output
    anonymous_read: bool = False
    # whether Ganeti's resources keep Ganeti's rule: who has no name reads all of them
    ganeti_rights: bool = False
    # whether every call needs a name
    require_authentication: bool = False
    # connections at once, also those whose handshake is not over
    max_clients: int = attrs.field(default=2000, validator=positive)
    # bytes of a request's body
    max_body_bytes: int = attrs.field(default=10 * 2**20, validator=positive)
    # time within which a body must be here
    body_timeout_s: float = attrs.field(default=30.0, validator=positive)
    # time for the TLS handshake
    handshake_timeout_s: float = attrs.field(default=5.0, validator=positive)
    # time without a request, or within its headers, after which a connection is closed
    idle_timeout_s: float = attrs.field(default=10.0, validator=positive)
    # time for which a call waits for a luxid that is being restarted
    luxid_patience_s: float = attrs.field(default=10.0, validator=not_negative)
    # whether it ends, with exit code 11, where this node is not the master, as Ganeti's does
    only_on_master: bool = False
    # time for requests under way when the daemon is told to stop
    stop_timeout_s: float = attrs.field(default=5.0, validator=not_negative)
    # whether /metrics is for everybody, without a name
    anonymous_metrics: bool = False
    # addresses and networks of proxies whose word on their clients' addresses counts; "unix": over the Unix socket
    trusted_proxies: tuple[str, ...] = attrs.field(default=(), validator=_proxies)
    # header in which they say it
    proxy_header: str = attrs.field(default="X-Forwarded-For", validator=one_of(_PROXY_HEADERS))
    # sites whose pages may call what is under /3 from a browser, as "https://tools.example.org"
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_origins)

    def url(self, node: str) -> str:
        """The address of the interface on a node. Args: node: its name; an address to listen at counts more."""
        host = self.address or node
        return f"http{'s' if self.ssl else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"


# Whom luxid tells of ended jobs: the table `[notify]` of the settings, and one table for each rule.
#
#     [notify.rules.operators]
#     on = ["error", "recovered"]
#     labels = ["team=web"]
#     program = ["/usr/local/bin/page-someone"]
#
# Source: DESIGN section 16; everyday.md sections h, j.


# words of `on`; "end" is any of the first three
EVENTS: Final = ("success", "error", "canceled", "end", "try", "recovered")
# seconds before each delivery; the first is made at once
PAUSES_S: Final = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
# hours of a delivery after which it is given up, in seconds
GIVE_UP_S: Final = 24 * 3600.0
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


class RuleFault(Exception):
    """A rule is malformed; the text says where, and what is allowed."""


def _events(_: object, field: Checked, value: tuple[str, ...]) -> None:
    wrong = [word for word in value if word not in EVENTS]
    if wrong or not value:
        raise ValueError(f"{field.name} lists some of {', '.join(EVENTS)}")


def _program(_: object, __: object, value: tuple[str, ...]) -> None:
    if value and (not value[0].startswith("/") or any("\0" in word for word in value)):
        raise ValueError("a program is named by its absolute path, its arguments follow; there is no shell")


def _url(_: object, __: object, value: str) -> None:
    # imported late: most settings have no rules
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        # a port that is no number is refused by this property
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_known = False
    if value and (
        not is_known or "@" in parts.netloc or not value.isascii() or not value.isprintable() or " " in value
    ):
        raise ValueError("an address is like https://host:port/path, without a user")


def _file(_: object, field: Checked, value: str) -> None:
    if value and not value.startswith("/"):
        raise ValueError(f"{field.name} is an absolute path")


def _pauses(_: object, field: Checked, value: tuple[float, ...]) -> None:
    if any(not 0 <= pause_s <= GIVE_UP_S for pause_s in value):
        raise ValueError(f"{field.name} are seconds, each from 0 to {GIVE_UP_S:.0f}")


def _networks(_: object, __: object, value: tuple[str, ...]) -> None:
    # imported late: as above
    import ipaddress

    for text in value:
        ipaddress.ip_network(text, strict=False)


@attrs.frozen
class NotifyRule:
    """Whom to tell of which jobs: by a program, or by a POST to an address."""

    on: tuple[str, ...] = attrs.field(default=("error",), validator=_events)
    # labels that a job has, all of them: "team=web", or "team" with any value
    labels: tuple[str, ...] = ()
    # patterns of which its name fits one, such as "backup*"; empty: any name, or none
    names: tuple[str, ...] = ()
    # logins of which one has submitted it; empty: anybody
    users: tuple[str, ...] = ()
    program: tuple[str, ...] = attrs.field(default=(), validator=_program)
    url: str = attrs.field(default="", validator=_url)
    # file with the secret by which deliveries are signed; empty: they are not
    secret_file: str = attrs.field(default="", validator=_file)
    # PEM file with the authorities that the receiver's certificate is checked against; empty: the system's
    ca_file: str = attrs.field(default="", validator=_file)
    # time for one delivery
    timeout_s: float = attrs.field(default=10.0, validator=positive)
    # pauses between deliveries; after the last one, or after 24 hours, it is given up
    retry_s: tuple[float, ...] = attrs.field(default=PAUSES_S, validator=_pauses)

    def __attrs_post_init__(self) -> None:
        if bool(self.program) == bool(self.url):
            raise ValueError("it needs either a program or a url")
        if self.secret_file and not self.url:
            raise ValueError("secret_file is for a url; a program gets no signature")


@attrs.frozen
class NotifySettings:
    """Off without rules."""

    rules: Mapping[str, NotifyRule] = attrs.field(factory=dict)
    # number of deliveries under way at once
    at_once: int = attrs.field(default=4, validator=positive)
    # beginning of addresses at which people look at a job, such as "https://master:5080/ui/jobs/"; empty: none is told
    job_url: str = ""
    # private addresses and networks to which may be posted, such as "10.1.0.0/16"
    private: tuple[str, ...] = attrs.field(default=(), validator=_networks)

    @property
    def is_on(self) -> bool:
        return bool(self.rules)


Rules = Mapping[str, NotifyRule]


def read_rules(value: object) -> Rules:
    """Read the tables of rules, by name. Raises: TypeError: it is no table. RuleFault: a rule is malformed."""
    if not isinstance(value, dict):
        raise TypeError
    for name in value:
        if _NAME.fullmatch(name) is None:
            raise RuleFault(f"'[notify.rules]': a rule is named by 1 to 40 of a-z, 0-9, '_' and '-', got {name!r:.60}")
    return {name: _read_rule(name, rule) for name, rule in value.items()}


def _read_rule(name: str, value: object) -> NotifyRule:
    table = f"'[notify.rules.{name}]'"
    if not isinstance(value, dict):
        raise RuleFault(f"{table} is a table with a program or a url, got {value!r:.60}")
    fields = {field.name: field for field in attrs.fields(NotifyRule)}
    values: dict[str, Any] = {}
    for key, given in value.items():
        if key not in fields:
            raise RuleFault(f"unknown key '{key}' in {table}; known are {', '.join(fields)}")
        expected, read = READERS[fields[key].type]
        try:
            values[key] = read(given)
        except TypeError:
            raise RuleFault(f"'{key}' in {table} must be {expected}, got {given!r}") from None
    try:
        return NotifyRule(**values)
    except ValueError as error:
        raise RuleFault(f"{table}: {error}") from None


# How long ended jobs are kept: the table `[retention]` of the settings.
#
# Source: DESIGN section 16; everyday.md sections g, j.


@attrs.frozen
class RetentionSettings:
    """Nothing is removed unless it is enabled: a cluster that is upgraded, with Ganeti's files, keeps all of them."""

    # whether luxid archives and removes by itself; false: `gantry prune` does by hand, by the same rules
    enabled: bool = False
    # age from which ended jobs are archived, as Ganeti's watcher does; 0: never
    archive_after_s: float = attrs.field(default=6 * 3600.0, validator=not_negative)
    # age of archived jobs that are removed, and of those that failed; 0: at no age
    keep_days: float = attrs.field(default=90.0, validator=not_negative)
    keep_failed_days: float = attrs.field(default=180.0, validator=not_negative)
    # number of ended jobs of which the oldest are removed at any age; 0: any number is kept
    keep_jobs: int = attrs.field(default=100_000, validator=not_negative)
    # number of latest jobs of each name that are kept in any case
    keep_per_name: int = attrs.field(default=20, validator=not_negative)
    # age of the outputs that are removed; 0: with their jobs
    keep_output_days: float = attrs.field(default=30.0, validator=not_negative)
    # age of the rows of removed jobs in the history; 0: for ever
    keep_history_days: float = attrs.field(default=400.0, validator=not_negative)
    interval_s: float = attrs.field(default=3600.0, validator=positive)


# When `gantry status` warns: the table `[health]` of the settings.
#
# Source: DESIGN section 16.


@attrs.frozen
class HealthSettings:
    # free part of a disk, in room or in number of files, below which it is told
    disk_warning_percent: float = attrs.field(default=10.0, validator=not_negative)
    disk_critical_percent: float = attrs.field(default=3.0, validator=not_negative)
    # free part of a daemon's descriptors, likewise
    descriptors_warning_percent: float = attrs.field(default=20.0, validator=not_negative)
    descriptors_critical_percent: float = attrs.field(default=5.0, validator=not_negative)
    # time for which a candidate may lack files of the queue
    lag_warning_s: float = attrs.field(default=300.0, validator=not_negative)


# Where plug-ins of the operators are: the table `[plugins]` of the settings.
#
# Source: DESIGN section 7.


FOLDER: Final = "/usr/local/lib/gantry/plugins"


def _absolute(_: object, field: Checked, value: str) -> None:
    if value and (not value.startswith("/") or "\0" in value):
        raise ValueError(f"{field.name} is an absolute path, or empty")


@attrs.frozen
class PluginsSettings:
    # folder with packages of opcodes, predicates and collectors, which upgrades leave alone; empty: none
    folder: str = attrs.field(default=FOLDER, validator=_absolute)
