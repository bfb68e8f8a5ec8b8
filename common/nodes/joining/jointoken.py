"""Tokens with which new machines join a cluster: their text, their record on the master, and who may use them. Pure.

Theory. A token is shown once, as text: an id, a secret, and the fingerprint of the cluster's certificate, by which
the new machine knows the master before it says anything secret. The master keeps a digest of the secret only.
The first use binds the token to the key that the machine has made; with that key the use may be repeated, so a
reply that was lost costs nothing, and nobody else gains anything from the text.

Source: DESIGN section 13, "Joining".
"""

import hashlib
import hmac
import re
from typing import Final, Self

import attrs

from common.errors import Denied, InvalidRequest

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
class TokenText:
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
