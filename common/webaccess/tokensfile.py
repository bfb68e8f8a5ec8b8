"""The tokens file on the disk: ours, JSON, for nobody but its owner.

Raises, all: Denied, DamagedFile, OSError: as `AccessFolder.change`.

Source: common/webaccess/tokens.py.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import orjson

from common.errors import DamagedFile, InvalidRequest
from common.paths import Paths
from common.webaccess.folder import AccessFolder, read_bounded
from common.webaccess.tokens import (
    ID_BYTES,
    SECRET_BYTES,
    Token,
    TokenText,
    digest_of_secret,
    with_new_token,
    with_revoked,
)
from common.wire import structure, unstructure

_MODE: Final = 0o600
_VERSION: Final = 1


@attrs.frozen
class _Content:
    version: int
    tokens: tuple[Token, ...]


@attrs.frozen
class Wish:
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

    def create(self, wish: Wish, now: float) -> tuple[Token, TokenText]:
        """Make a token; return its record, and its text, which is stored nowhere.

        Raises: Conflict: a good token has this name.
        Durability: on return it survives a loss of power.
        """
        text = TokenText(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES))
        expires_at = None if wish.lasts_s is None else now + wish.lasts_s
        digest = digest_of_secret(text.secret)
        token = Token(text.id, wish.name, digest, wish.rights, now, expires_at, wish.run_as)
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
