"""What a machine needs to join, and what the cluster gives it."""

import hashlib
import hmac
import os
import re
import secrets
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import orjson

from common.clusterinit import ssconf_writes
from common.durable.atomicfile import FileWrite, remove_files, write_files
from common.durable.durably import durably
from common.durable.folders import locked_folder, sync_folders
from common.errors import Conflict, DamagedFile, Denied, InvalidRequest, NotFound
from common.featuresettings import EtcdSettings, KeeperdSettings
from common.jsontext import ascii_json
from common.nodes.certificates import PRIVATE_MODE, CertificateRequest, is_signed_by, make_request
from common.paths import Paths
from common.settings import BY_NODES, ConfdSettings, MondSettings, Settings
from common.settingsfile import SYSTEM_FILE
from common.system.accounts import check_owner
from common.system.log import get_log
from common.wire import structure, unstructure

# Tokens with which new machines join a cluster: their text, their record on the master, and who may use them. Pure.
#
# Theory. A token is shown once, as text: an id, a secret, and the fingerprint of the cluster's certificate, by which
# the new machine knows the master before it says anything secret. The master keeps a digest of the secret only.
# The first use binds the token to the key that the machine has made; with that key the use may be repeated, so a
# reply that was lost costs nothing, and nobody else gains anything from the text.
#
# Source: DESIGN section 13, "Joining".


EXPIRES_S: Final = 3600.0
# time after which the record of a token that is over is removed
KEPT_S: Final = 86400.0
# time for which a used token lets its machine finish, even if it expires meanwhile
FINISH_S: Final = 3600.0
_ID: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)
_TEXT: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{32})-([0-9a-f]{64})-([0-9a-f]{8})", re.ASCII)
_HOW_TO_GET: Final = "make a new one on the master: gnt-cluster join-token"


class WrongToken(Denied):
    """the token is not one of this cluster"""


@attrs.frozen
class JoinTokenText:
    """A token as it is shown, and typed on the new machine."""

    id: str
    # never logged, and never stored on the master
    secret: str = attrs.field(repr=False)
    # SHA-256 of the cluster's certificate in DER form
    fingerprint: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: InvalidRequest: it is not a whole token."""
        match = _TEXT.fullmatch(text.strip().lower())
        if match is None or match[4] != _check_of(*match.group(1, 2, 3)):
            raise InvalidRequest(
                "this is not a whole token: it has four parts with hyphens between, and each digit counts; "
                "copy the whole command that 'gnt-cluster join-token' has printed"
            )
        return cls(match[1], match[2], match[3])

    def __str__(self) -> str:
        return f"{self.id}-{self.secret}-{self.fingerprint}-{_check_of(self.id, self.secret, self.fingerprint)}"


def _check_of(*parts: str) -> str:
    """The last part of the text: with it a slip of the pen does not look like a wrong certificate."""
    return hashlib.sha256("-".join(parts).encode()).hexdigest()[:8]


@attrs.frozen
class TokenUse:
    """The use of a token: the machine, and what the cluster has given to it."""

    node: str
    address: str
    # SHA-256 of the machine's public key
    key: str
    # PEM of the certificate that the cluster has signed
    certificate: str
    used_at: float
    # number of jobs that were to add the node
    jobs: int = 0
    # id of the last of them; None: none, or not known yet
    job_id: int | None = None


@attrs.frozen
class JoinToken:
    """The record of a token on the master; times are seconds since the epoch."""

    id: str
    # SHA-256 of the secret
    digest: str
    made_at: float
    expires_at: float
    # name of the node of the cluster that comes back with it; empty: a new node comes
    readd: str = ""
    use: TokenUse | None = None

    @property
    def is_over_at(self) -> float:
        """When nobody can do anything with it any more."""
        return self.expires_at if self.use is None else max(self.expires_at, self.use.used_at + FINISH_S)

    def is_of(self, secret: str) -> bool:
        """Whether this is the secret; takes the same time whatever is wrong with it."""
        return hmac.compare_digest(self.digest, digest_of_secret(secret))

    def admit(self, key: str, now: float) -> TokenUse | None:
        """Judge a machine with the right secret.

        Args: key: SHA-256 of its public key.
        Returns: the use, if this very machine has used the token already; None: the token is free.
        Raises: Denied: another machine has used it, or it has expired.
        """
        if self.use is not None:
            if hmac.compare_digest(self.use.key, key):
                return self.use
            raise Denied(
                f"the token '{self.id}' was used already, by the machine '{self.use.node}' at {self.use.address}; a "
                f"token is for one machine, {_HOW_TO_GET}"
            )
        if now >= self.expires_at:
            ago_s = now - self.expires_at
            raise Denied(f"the token '{self.id}' has expired, {ago_s:.0f} s ago; {_HOW_TO_GET}")
        return None


def is_token_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def wrong_token() -> WrongToken:
    """The error for a token that is not known, or has another secret; it does not tell which."""
    return WrongToken(f"the master has no such token: it was revoked, or is of another cluster; {_HOW_TO_GET}")


def digest_of_secret(secret: str) -> str:
    # the secret has 128 random bits, so a quick hash is enough
    return hashlib.sha256(secret.encode()).hexdigest()


# The records of join tokens on the master: one file a token, in a folder that only its owner can read.
#
# The folder's own lock is held while a record changes, so a token cannot be used by two machines at once, nor be
# used while it is revoked.


_FOLDER_MODE: Final = 0o700
_MODE: Final = 0o600
_ID_BYTES: Final = 4
_SECRET_BYTES: Final = 16
_log: Final = get_log(__name__)


class JoinTokenFiles:
    """The tokens of an installation. Raises, all: Denied: this user is neither its owner nor root. OSError."""

    def __init__(self, paths: Paths) -> None:
        self._data = paths.data
        self.folder = paths.join_tokens

    def check_user(self) -> None:
        """Raises: Denied: as all."""
        self._owner()

    def make_folder(self) -> None:
        """Make the folder, if it is missing."""
        owner = self._owner()
        if self.folder.is_dir():
            return
        self.folder.mkdir(_FOLDER_MODE, exist_ok=True)
        self.folder.chmod(_FOLDER_MODE)
        os.chown(self.folder, *owner)
        durably(lambda: sync_folders([self._data]))

    def make(self, expires_s: float, readd: str, now: float) -> tuple[JoinToken, str]:
        """Make a token; return its record and its secret, which is stored nowhere. Tokens long over are removed.

        Durability: on return it survives a loss of power.
        """
        self.make_folder()
        secret = secrets.token_hex(_SECRET_BYTES)
        token = JoinToken(secrets.token_hex(_ID_BYTES), digest_of_secret(secret), now, now + expires_s, readd)
        with locked_folder(self.folder):
            old = [each for each in self.list() if each.is_over_at + KEPT_S < now]
            durably(lambda: remove_files([self._file(each.id) for each in old]))
            self._write(token)
        return token, secret

    def list(self) -> list[JoinToken]:
        """All tokens, the oldest first; a damaged record is left out, and logged."""
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        found = [token for name in names if is_token_id(name) and (token := self._read(name)) is not None]
        return sorted(found, key=lambda token: token.made_at)

    def find(self, token_id: str) -> JoinToken | None:
        """The token of this id; None: there is none, or it is damaged."""
        return self._read(token_id) if is_token_id(token_id) else None

    def revoke(self, token_id: str) -> None:
        """Remove a token; on return it can be used no more, also after a loss of power. Raises: NotFound."""
        self._owner()
        with locked_folder(self.folder):
            if not is_token_id(token_id) or not self._file(token_id).exists():
                raise NotFound(f"there is no token '{token_id}'; see them with: gnt-cluster join-token --list")
            durably(lambda: remove_files([self._file(token_id)]))

    def change(self, token_id: str, change: Callable[[JoinToken | None], JoinToken]) -> JoinToken:
        """Replace a token's record by what `change` makes of it, alone; return the new one.

        Args: change: gets None if there is no such token; what it raises is raised here, and nothing changes.
        Durability: on return it survives a loss of power.
        """
        with locked_folder(self.folder):
            before = self.find(token_id)
            after = change(before)
            if after != before:
                self._write(after)
            return after

    def _owner(self) -> tuple[int, int]:
        return check_owner(self._data, "let machines join")

    def _file(self, token_id: str) -> Path:
        return self.folder / token_id

    def _read(self, token_id: str) -> JoinToken | None:
        path = self._file(token_id)
        try:
            return structure(orjson.loads(path.read_bytes()), JoinToken, "token")
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, InvalidRequest, DamagedFile) as error:
            _log.error("join.token_damaged", path=path, reason=error, effect="nobody can use it; make another one")
            return None

    def _write(self, token: JoinToken) -> None:
        owner = self._owner() if os.geteuid() == 0 else None
        content = orjson.dumps(unstructure(token))
        durably(lambda: write_files([FileWrite(self._file(token.id), content, _MODE, owner=owner)]))


def with_job(token: JoinToken, *, jobs: int, job_id: int | None) -> JoinToken:
    """The token after a job for its machine was ordered or taken."""
    assert token.use is not None, "only a used token has jobs"
    return attrs.evolve(token, use=attrs.evolve(token.use, jobs=jobs, job_id=job_id))


# The settings file of a machine that joins: written if it is missing, else checked.
#
# Under a lease it names the members of etcd as the master's does. The files for etcd, a password and certificates, are
# not sent: a machine must have them before it can be a candidate.
#
# Source: DESIGN sections 13, "Joining", and 14.


_CLUSTER: Final = "cluster"
# keys that are the same on all nodes; files for etcd have the same places
_ETCD: Final = ("endpoints", "prefix", "user", "password_file", "ca_file", "cert_file", "key_file", "request_timeout_s")
_KEEPERD: Final = ("ttl_s", "test_timings", "port", "stale_s")

# name of a table -> its keys and values
Tables = Mapping[str, Mapping[str, object]]
_SETTINGS_MODE: Final = 0o644


@attrs.frozen
class NodeSettings:
    """What the settings of a node must say."""

    node_name: str
    address: str
    port: int
    # tables of what else is the same on all nodes, see `shared_tables`
    shared: Tables = attrs.field(factory=dict)

    @property
    def replication(self) -> str:
        return str(self.shared.get(_CLUSTER, {}).get("replication", BY_NODES))

    @property
    def text(self) -> str:
        """The content of a settings file with nothing else."""
        own: Tables = {
            _CLUSTER: {"replication": self.replication, "node_name": self.node_name},
            "noded": {"address": self.address, "port": self.port},
        }
        others = {name: table for name, table in self.shared.items() if name != _CLUSTER}
        return "\n".join(f"[{name}]\n{_lines(table)}" for name, table in {**own, **others}.items())


def shared_tables(settings: Settings) -> Tables:
    """What all nodes have in common besides the port of their node daemons, as far as it is not the default."""
    found: dict[str, dict[str, object]] = {}
    shared: tuple[tuple[str, ConfdSettings | MondSettings], ...] = (("confd", settings.confd), ("mond", settings.mond))
    for name, own in shared:
        usual = type(own)()
        values: dict[str, object] = {"enabled": own.enabled, "port": own.port}
        if changed := {key: value for key, value in values.items() if value != getattr(usual, key)}:
            found[name] = changed
    if settings.cluster.has_lease:
        found[_CLUSTER] = {"replication": settings.cluster.replication}
        found |= _lease_tables(settings)
    return found


def _lease_tables(settings: Settings) -> dict[str, dict[str, object]]:
    tables = (
        ("etcd", _ETCD, settings.etcd, EtcdSettings()),
        ("keeperd", _KEEPERD, settings.keeperd, KeeperdSettings()),
    )
    found: dict[str, dict[str, object]] = {}
    for name, keys, own, usual in tables:
        changed = {key: getattr(own, key) for key in keys if getattr(own, key) != getattr(usual, key)}
        if changed:
            found[name] = changed
    return found


def missing_etcd_files(settings: Settings) -> Sequence[str]:
    """The files that the settings name for etcd, and this machine has not."""
    etcd = settings.etcd
    named = (etcd.ca_file, etcd.cert_file, etcd.key_file, etcd.password_file)
    return [file for file in named if file and not Path(file).exists()]


def _lines(table: Mapping[str, object]) -> str:
    # strings and numbers are written alike in JSON and TOML
    return "".join(f"{key} = {ascii_json(value).decode()}\n" for key, value in table.items())


def settle_settings(settings: Settings, wanted: NodeSettings) -> Path | None:
    """Write the settings into the file if there is none, or one that sets nothing; return it then.

    Raises: Conflict: there is one that says something else; the message has the lines that it needs.
    Durability: on return the file survives a loss of power.
    """
    path = settings.source
    if path is None or not tomllib.loads(path.read_text()):
        # a package brings a file with comments alone; they stay
        kept = "" if path is None else path.read_text()
        path = path or (SYSTEM_FILE if settings.root is None else settings.root / SYSTEM_FILE.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        durably(lambda: write_files([FileWrite(path, (kept + wanted.text).encode(), _SETTINGS_MODE)]))
        return path
    noded, cluster = settings.noded, settings.cluster
    fits = (
        cluster.replication == wanted.replication
        and cluster.own_name == wanted.node_name
        and noded.port == wanted.port
        and (not cluster.has_lease or settings.etcd.prefix == _prefix(wanted))
    )
    if not fits or noded.address not in ("", wanted.address):
        lines = "; ".join(line for line in wanted.text.splitlines() if line)
        raise Conflict(f"'{settings.source}' does not fit the cluster; let it have these lines: {lines}")
    return None


def _prefix(wanted: NodeSettings) -> object:
    """The prefix of the cluster's keys in etcd: with another one a node would be a cluster of its own."""
    return wanted.shared.get("etcd", {}).get("prefix", EtcdSettings().prefix)


# The files of a machine that is joining a cluster, from its new key to a complete node.
#
# Theory. Each step is durable before the next, so a command that was killed goes on when it is repeated: the key and
# the machine's plan first, in a folder of their own; then what the cluster has signed; at last the folder goes. A
# machine that has files of a cluster and no such folder is, or was, a node: nothing of it is overwritten, but all of it
# can be put aside.
#
# Source: DESIGN section 13, "Joining".


_PLAN: Final = "plan"
_KEY: Final = "key.pem"
_FORCE: Final = "to put its files aside and join, repeat the command with --force"


@attrs.frozen
class JoiningPlan:
    """What the machine is about to become."""

    token_id: str
    node_name: str


class JoiningFiles:
    """The files of one machine. Raises, all: OSError."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._folder = paths.joining

    def plan(self) -> JoiningPlan | None:
        """What an earlier command has begun and not finished; None: nothing, or it cannot be read."""
        try:
            return structure(orjson.loads((self._folder / _PLAN).read_bytes()), JoiningPlan, "plan")
        except (FileNotFoundError, InvalidRequest, orjson.JSONDecodeError):
            return None

    def refuse_member(self) -> None:
        """Raises: Conflict: this machine is, or was, a node."""
        cluster = self._paths.ssconf_file("cluster_name")
        for path in (self._paths.config_data, cluster, self._paths.server_pem, self._paths.client_pem):
            if path.exists():
                name = cluster.read_text("utf-8", "replace").strip() if cluster.exists() else ""
                known = f"of the cluster '{name}' " if name else ""
                raise Conflict(f"this machine is, or was, a node {known}already: there is '{path}'; {_FORCE}")

    def put_aside(self) -> Path | None:
        """Move all files of the installation's data into a new folder there; return it, or None: there were none.

        Durability: on return they survive a loss of power in their new place.
        """
        entries = [entry for entry in self._paths.data.iterdir() if not entry.name.startswith("before-join-")]
        if not any(entry.is_file() for entry in entries):
            return None
        target = self._paths.data / f"before-join-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        target.mkdir(_FOLDER_MODE)
        for entry in entries:
            os.rename(entry, target / entry.name)
        durably(lambda: sync_folders([target, self._paths.data]))
        return target

    def begin(self, plan: JoiningPlan) -> CertificateRequest:
        """Note the plan, and make the key, unless it was made before; return it with the request to sign it.

        Durability: on return both survive a loss of power.
        """
        self._folder.mkdir(_FOLDER_MODE, exist_ok=True)
        key = self._key()
        made = make_request(plan.node_name, key)
        content = orjson.dumps(unstructure(plan))
        writes = [FileWrite(self._folder / _PLAN, content, _MODE)]
        if key is None:
            writes.append(FileWrite(self._folder / _KEY, made.key, _MODE))
        durably(lambda: write_files(writes))
        durably(lambda: sync_folders([self._paths.data]))
        return made

    def install(self, certificate: str, cluster_certificate: str, ssconf: Mapping[str, str]) -> None:
        """Write what the cluster has given, if an earlier command has not: the node may have got newer files since.

        Raises: InvalidRequest: the certificate is not signed by the cluster, or a value of ssconf is none.
        Durability: on return it survives a loss of power.
        """
        key = self._key()
        if key is None or not is_signed_by(certificate.encode(), cluster_certificate.encode()):
            raise InvalidRequest("the master has sent a certificate that its cluster has not signed; nothing was kept")
        if any(not name.replace("-", "").replace("_", "").isalnum() for name in ssconf):
            raise InvalidRequest("the master has sent a name that no value of ssconf has; nothing was kept")
        if self._has(key + certificate.encode()):
            return
        writes = [
            *ssconf_writes(self._paths, {name: text.encode() for name, text in ssconf.items()}),
            FileWrite(self._paths.server_pem, cluster_certificate.encode(), PRIVATE_MODE),
            FileWrite(self._paths.client_pem, key + certificate.encode(), PRIVATE_MODE),
        ]
        durably(lambda: write_files(self._owned(writes)))

    @property
    def certificate(self) -> Path:
        """The file of this node's key and certificate."""
        return self._paths.client_pem

    def finish(self) -> None:
        """The machine is a node: remove what only the way to it needed."""
        # the plan first: without it a command begins anew
        durably(lambda: remove_files([self._folder / _PLAN]))
        shutil.rmtree(self._folder, ignore_errors=True)
        durably(lambda: sync_folders([self._paths.data]))

    def _owned(self, writes: list[FileWrite]) -> list[FileWrite]:
        """The writes, for the owner of the data: root may run this, and another user the daemons."""
        status = self._paths.data.stat()
        owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else None
        return [attrs.evolve(write, owner=owner) for write in writes]

    def _has(self, client_pem: bytes) -> bool:
        """Whether the node's certificate is in place, which comes last."""
        return self.certificate.exists() and self.certificate.read_bytes() == client_pem

    def _key(self) -> bytes | None:
        try:
            return (self._folder / _KEY).read_bytes()
        except FileNotFoundError:
            return None
