"""The records of join tokens on the master: one file a token, in a folder that only its owner can read.

The folder's own lock is held while a record changes, so a token cannot be used by two machines at once, nor be
used while it is revoked.

Source: common/nodes/joining/jointoken.py.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.folders import sync_folders
from common.durable.moves import remove_files
from common.errors import DamagedFile, Denied, InvalidRequest, NotFound
from common.nodes.joining.jointoken import KEPT_S, JoinToken, digest_of_secret, is_token_id
from common.paths import Paths
from common.system.log import get_log
from common.wire import structure, unstructure

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
        with self._locked():
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
        with self._locked():
            if not is_token_id(token_id) or not self._file(token_id).exists():
                raise NotFound(f"there is no token '{token_id}'; see them with: gnt-cluster join-token --list")
            durably(lambda: remove_files([self._file(token_id)]))

    def change(self, token_id: str, change: Callable[[JoinToken | None], JoinToken]) -> JoinToken:
        """Replace a token's record by what `change` makes of it, alone; return the new one.

        Args: change: gets None if there is no such token; what it raises is raised here, and nothing changes.
        Durability: on return it survives a loss of power.
        """
        with self._locked():
            before = self.find(token_id)
            after = change(before)
            if after != before:
                self._write(after)
            return after

    def _owner(self) -> tuple[int, int]:
        status = os.stat(self._data)
        if os.geteuid() not in (0, status.st_uid):
            raise Denied(
                f"only root and the owner of '{self._data}' may let machines join; this user has the number "
                f"{os.geteuid()}, and the owner {status.st_uid}"
            )
        return status.st_uid, status.st_gid

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

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
