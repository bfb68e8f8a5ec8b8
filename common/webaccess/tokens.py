"""Tokens for programs that call over HTTP: their text, their record, and whether one is good. Pure.

Theory. A token is shown once, as `gnt_ID_SECRET`. The id names it in lists and logs; the record has a digest of the
secret only, and a plain hash is enough, because the secret has 256 random bits. Tokens that were revoked or have
expired are remembered for a while, so that their users learn why they are refused; but only those who show the
right secret do.

Source: DESIGN section 15; RFC 6750.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

import attrs
import orjson

from common.errors import Conflict, DamagedFile, GantryError, InvalidRequest, NotFound
from common.paths import Paths
from common.webaccess.folder import AccessFolder, read_bounded
from common.webaccess.rights import Grants, read_grants
from common.wire import structure, unstructure

ID_BYTES: Final = 4
SECRET_BYTES: Final = 32
# time for which a token is remembered that is good no more
KEPT_S: Final = 30 * 86400.0
_TEXT: Final = re.compile(r"gnt_([0-9a-f]{8})_([0-9a-f]{64})", re.ASCII)
_ID: Final = re.compile(r"(?:gnt_)?([0-9a-f]{8})(?:_[0-9a-f]*)?", re.ASCII)


class BadToken(GantryError):
    """the token is not valid"""

    code = "token_unknown"


class RevokedToken(BadToken):
    """the token was revoked"""

    code = "token_revoked"


class ExpiredToken(BadToken):
    """the token has expired"""

    code = "token_expired"


@attrs.frozen
class TokenText:
    id: str
    # never logged, and stored nowhere
    secret: str = attrs.field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None: this is not a token of ours."""
        match = _TEXT.fullmatch(text)
        return None if match is None else cls(match[1], match[2])

    def __str__(self) -> str:
        return f"gnt_{self.id}_{self.secret}"


@attrs.frozen
class Token:
    """The record of a token; times are seconds since the epoch."""

    id: str
    # what it is for, as its maker said
    name: str
    # SHA-256 of the secret
    digest: str = attrs.field(repr=False)
    # words of roles and rights; unknown ones give nothing
    rights: tuple[str, ...]
    made_at: float
    # None: never
    expires_at: float | None = None
    # login of the user as whom commands run; None: none, so no command can be run
    run_as: str | None = None
    revoked_at: float | None = None

    @property
    def grants(self) -> Grants:
        return attrs.evolve(read_grants(self.rights), unix_user=self.run_as)

    def is_of(self, secret: str) -> bool:
        """Whether this is the secret; takes the same time whatever is wrong with it."""
        return hmac.compare_digest(self.digest, digest_of_secret(secret))

    def check(self, now: float) -> None:
        """Raises: RevokedToken, ExpiredToken: it is good no more."""
        if self.revoked_at is not None:
            raise RevokedToken(f"the token '{self.id}' was revoked; ask for a new one")
        if self.expires_at is not None and now >= self.expires_at:
            raise ExpiredToken(f"the token '{self.id}' has expired; ask for a new one")

    def state(self, now: float) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and now >= self.expires_at else "valid"

    def is_forgotten(self, now: float) -> bool:
        """Whether it has been good no more for so long that its record can go."""
        ends = [at for at in (self.expires_at, self.revoked_at) if at is not None]
        return bool(ends) and min(ends) + KEPT_S < now


def digest_of_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def unknown_token() -> BadToken:
    """The error for a token that is not known, or has another secret; it does not tell which."""
    return BadToken("this token is not known here; make one with: gantry token create")


def id_in(text: str) -> str:
    """The id that a user means: he may type it, or a whole token. Raises: NotFound."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise NotFound(
            f"'{text:.20}' is not the id of a token, which has eight digits; see them with: gantry token list"
        )
    return match[1]


def with_new_token(tokens: Sequence[Token], new: Token) -> tuple[Token, ...]:
    """The tokens with one more, without those that are forgotten by now.

    Raises: Conflict: the id is taken, or a good token has this name: then a list would not say which is whose.
    """
    for token in tokens:
        if token.id == new.id:
            raise Conflict(f"there is a token '{token.id}' already; try again")
        if token.name == new.name and token.state(new.made_at) == "valid":
            raise Conflict(f"the token '{token.id}' is for '{token.name}' already; revoke it, or take another name")
    return (*(token for token in tokens if not token.is_forgotten(new.made_at)), new)


def with_revoked(tokens: Iterable[Token], token_id: str, now: float) -> tuple[Token, ...]:
    """The tokens after this one was revoked; once more changes nothing. Raises: NotFound."""
    found = {token.id: token for token in tokens}
    if token_id not in found:
        raise NotFound(f"there is no token '{token_id}'; see them with: gantry token list")
    if found[token_id].revoked_at is None:
        found[token_id] = attrs.evolve(found[token_id], revoked_at=now)
    return tuple(found.values())


# The tokens file on the disk: ours, JSON, for nobody but its owner.
#
# Raises, all: Denied, DamagedFile, OSError: as `AccessFolder.change`.
#
# Source: common/webaccess/tokens.py.


_MODE: Final = 0o600
_VERSION: Final = 1


@attrs.frozen
class _Content:
    version: int
    tokens: tuple[Token, ...]


@attrs.frozen
class NewToken:
    """A token that somebody wants."""

    # what it is for
    name: str
    # words of roles and rights
    rights: tuple[str, ...]
    # None: for ever
    lasts_s: float | None
    run_as: str | None = None


class TokensFile:
    """The tokens of an installation."""

    def __init__(self, paths: Paths) -> None:
        self._folder = AccessFolder(paths)
        self.path = self._folder.tokens

    def tokens(self) -> Sequence[Token]:
        """All tokens, the oldest first; those long over are left out when another is made."""
        return read_content(read_bounded(self.path), str(self.path))

    def create(self, new: NewToken, now: float) -> tuple[Token, TokenText]:
        """Make a token; return its record, and its text, which is stored nowhere.

        Raises: Conflict: a good token has this name.
        Durability: on return it survives a loss of power.
        """
        text = TokenText(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES))
        expires_at = None if new.lasts_s is None else now + new.lasts_s
        digest = digest_of_secret(text.secret)
        token = Token(text.id, new.name, digest, new.rights, now, expires_at, new.run_as)
        self._change(lambda tokens: with_new_token(tokens, token))
        return token, text

    def revoke(self, token_id: str, now: float) -> None:
        """Let a token be used no more. Raises: NotFound. Durability: also after a loss of power."""
        self._change(lambda tokens: with_revoked(tokens, token_id, now))

    def _change(self, edit: Callable[[Sequence[Token]], Sequence[Token]]) -> None:
        def change(before: bytes | None) -> bytes:
            content = _Content(_VERSION, tuple(edit(read_content(before, str(self.path)))))
            return orjson.dumps(unstructure(content), option=orjson.OPT_INDENT_2) + b"\n"

        self._folder.change(self.path, change, _MODE)


def read_content(content: bytes | None, name: str) -> tuple[Token, ...]:
    """The tokens in this content of a file; None: there is no file. Raises: DamagedFile."""
    if content is None:
        return ()
    try:
        read = structure(orjson.loads(content), _Content, name)
    except (orjson.JSONDecodeError, InvalidRequest, DamagedFile) as error:
        raise DamagedFile(f"'{name}' cannot be read: {error}; restore it, or remove it and make new tokens") from error
    if read.version != _VERSION:
        raise DamagedFile(f"'{name}' is of version {read.version}; this program reads version {_VERSION}")
    return read.tokens
