"""The users and tokens that rapid knows: read again when a file has changed.

Theory. Each look at the accounts compares two small `stat`s with those of the files that were read, so that a removed
user or a revoked token is refused from the next request on, whatever becomes of events. Events of the folder only
wake those who wait for a change: streams that were opened with a token end with it. A file that has just been
written may change once more within the same tick of its times, so it is read again at the next look.

A file that cannot be parsed changes nothing: the accounts stay as they were. A file that cannot be read takes all its
accounts away, and a missing one has none (Ganeti's rule). A shortage of descriptors or memory, or an error of the
disk, says nothing about the file: the accounts stay, and the next look reads again.

Source: rapi.md section 2; issue 12, "reload on change".
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from common.errors import GantryError
from common.paths import Paths
from common.system.log import get_log
from common.system.shortages import is_passing
from common.system.stamps import Stamp, inode_stamp_at, is_settled
from common.webaccess import tokens, users
from common.webaccess.folder import read_bounded
from common.webaccess.passwords import UnknownForm, read_password
from common.webaccess.tokens import Token
from common.webaccess.users import User

T = TypeVar("T")
_log: Final = get_log(__name__)


class _Followed(Generic[T]):
    """A file whose content is read again when it has changed. Args: read: of the content; None: there is no file."""

    def __init__(self, path: Path, nothing: T, read: Callable[[bytes | None], T]) -> None:
        self.path = path
        self.value = nothing
        self._nothing: Final = nothing
        self._read = read
        # of the content that was read last; None: it has to be read
        self._stamp: Stamp | None = None
        # the content that was read last; nothing: none was
        self._seen: tuple[bytes | None] | None = None
        # what is wrong with it, as it was logged
        self._trouble = ""

    def refresh(self) -> bool:
        """Read the file if it has changed; return whether its value is another one now."""
        stamp: Stamp | None = None
        before = self.value
        try:
            stamp = inode_stamp_at(self.path)
            if stamp == self._stamp:
                return False
            self._take(read_bounded(self.path))
        except GantryError as error:
            self._tell(error.message, effect="all stays as it was read before")
        except OSError as error:
            self._lose(error)
            stamp = None if is_passing(error) else stamp
        self._stamp = stamp if stamp is None or is_settled(stamp) else None
        return self.value != before

    def _take(self, content: bytes | None) -> None:
        # the same content is not judged twice, so that the log tells once what is wrong with it
        if (content,) != self._seen:
            self._seen = (content,)
            self.value = self._read(content)
            self._tell("")

    def _lose(self, error: OSError) -> None:
        if is_passing(error):
            self._tell(str(error), effect="all stays as it was read before, until it can be read")
            return
        self.value, self._seen = self._nothing, None
        self._tell(str(error), effect="nobody named in it can call")

    def _tell(self, trouble: str, effect: str = "") -> None:
        if trouble and trouble != self._trouble:
            _log.error("access.file_not_read", path=self.path, reason=trouble, effect=effect)
        self._trouble = trouble


class Accounts:
    """Users by their names, tokens by their ids."""

    def __init__(self, paths: Paths) -> None:
        self._users: _Followed[Mapping[str, User]] = _Followed(paths.rapi_users, {}, self._read_users)
        self._tokens: _Followed[Mapping[str, Token]] = _Followed(paths.rapi_tokens, {}, self._read_tokens)
        # users of whose passwords the log has told that they never match
        self._told: set[str] = set()

    def refresh(self) -> bool:
        """Read what has changed; return whether an account has."""
        changed = [self._users.refresh(), self._tokens.refresh()]
        if any(changed):
            _log.info("access.read", users=len(self._users.value), tokens=len(self._tokens.value))
        return any(changed)

    def user(self, name: str) -> User | None:
        """The user of this name, as of the last `refresh`."""
        return self._users.value.get(name)

    def token(self, token_id: str) -> Token | None:
        """The token of this id, as of the last `refresh`."""
        return self._tokens.value.get(token_id)

    def _read_users(self, content: bytes | None) -> Mapping[str, User]:
        read = users.read_content(content or b"", str(self._users.path))
        for number in read.short_lines:
            _log.warning("access.line_skipped", path=self._users.path, line=number, reason="it has only one word")
        for user in read.by_name.values():
            self._tell_form(user)
        return read.by_name

    def _tell_form(self, user: User) -> None:
        form = read_password(user.password)
        if not isinstance(form, UnknownForm):
            self._told.discard(user.name)
        elif user.name not in self._told:
            self._told.add(user.name)
            reason = f"its password has the unknown form '{{{form.scheme:.20}}}', and matches nothing"
            _log.warning("access.unknown_password", user=user.name, reason=reason)

    def _read_tokens(self, content: bytes | None) -> Mapping[str, Token]:
        return {token.id: token for token in tokens.read_content(content, str(self._tokens.path))}
