"""The gate of rapid: who makes a call over the network, and whether a caller may make it.

Source: rapi.md section 2, "Order of checks"; DESIGN section 15.
"""

import base64
import binascii
import functools
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar

import attrs
import trio
from starlette.requests import Request as HttpRequest

from common.access import Role
from common.errors import Denied, GantryError, explain
from common.paths import Paths
from common.system.accounts import user_numbered
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import is_passing
from common.system.stamps import Stamp, inode_stamp_at, is_settled
from common.system.watch import EventKind, FolderWatch
from common.webaccess import tokens, users
from common.webaccess.folder import AccessFolder, read_bounded
from common.webaccess.passwords import REALM, UnknownForm, read_password
from common.webaccess.rights import NOBODY, ROLE_OF, Principal, Rights
from common.webaccess.tokens import BadToken, Token, TokenText, unknown_token
from common.webaccess.users import User
from daemons.rapid.access.passwordchecks import MOST_REMEMBERED, PasswordChecks
from daemons.rapid.calls import Call, Face
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.transport.callers import host_of, peer_over_socket
from protocol.peer import Peer

# The users and tokens that rapid knows: read again when a file has changed.
#
# Theory. Each look at the accounts compares two small `stat`s with those of the files that were read, so that a removed
# user or a revoked token is refused from the next request on, whatever becomes of events. Events of the folder only
# wake those who wait for a change: streams that were opened with a token end with it. A file that has just been
# written may change once more within the same tick of its times, so it is read again at the next look.
#
# A file that cannot be parsed changes nothing: the accounts stay as they were. A file that cannot be read takes all its
# accounts away, and a missing one has none (Ganeti's rule). A shortage of descriptors or memory, or an error of the
# disk, says nothing about the file: the accounts stay, and the next look reads again.
#
# Source: rapi.md section 2; issue 12, "reload on change".


T = TypeVar("T")


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


# The header `Authorization`. Pure.
#
# Source: rapi.md section 2; RFC 7617; RFC 6750.


_BASIC: Final = f'Basic realm="{REALM}"'
_BEARER: Final = 'Bearer realm="gantry"'


@attrs.frozen
class NamePassword:
    name: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Bearer:
    text: str = attrs.field(repr=False)


def read_credentials(header: str) -> NamePassword | Bearer:
    """What the header says.

    Raises: RequestRefused: 400: Basic without a token; 401: another scheme, or a token that cannot be read.
    """
    scheme, _, rest = header.strip().partition(" ")
    rest = rest.strip()
    match scheme.lower():
        case "basic" if not rest:
            raise RequestRefused(400, "the header 'Authorization' has the scheme Basic and no credentials")
        case "basic":
            return _read_basic(rest)
        case "bearer":
            return Bearer(rest)
        case _:
            raise unauthenticated("the header 'Authorization' must have the scheme Basic or Bearer")


def _read_basic(text: str) -> NamePassword:
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise unauthenticated("the credentials cannot be read: they are the base64 form of 'name:password'") from None
    if not colon:
        raise unauthenticated("the credentials have no colon between name and password")
    return NamePassword(name, password)


def unauthenticated(message: str, *, code: str = "unauthenticated") -> RequestRefused:
    """The refusal of a caller who has not shown who he is; the face adds what it asks for."""
    return RequestRefused(401, message, code=code)


def bad_token(error: BadToken) -> RequestRefused:
    """The refusal of a token."""
    challenge = f'{_BASIC}, {_BEARER}, error="invalid_token", error_description="{error.message}"'
    return RequestRefused(401, error.message, code=error.code, headers={"WWW-Authenticate": challenge})


# Whether a caller may make a call, and with which role luxid carries it out. Pure.
#
# Theory. There are two rules. Ours looks at the rights that the call names: the caller has one of them, by role or by
# name; if not, and the settings let everybody read, a call that the role *read* covers is made with that role, for a
# stranger who owns nothing. Ganeti's rule, where the settings keep it, holds for Ganeti's resources only, and there it
# counts instead: it looks at the options `read` and `write`, which are the roles *read* and *operate* here; a call
# without options is for everybody; whoever may call sees and does all. Beside it only single rights count, which
# Ganeti's users cannot have, but tokens do.
#
# Source: rapi.md section 2; DESIGN section 15.


@attrs.frozen
class AccessRules:
    """The settings of access."""

    # whether callers without a name may read
    anonymous_read: bool = False
    # whether Ganeti's rule holds for Ganeti's resources
    ganeti_rights: bool = False
    # whether every call needs a name, also one to an unknown path
    require_authentication: bool = False


# what an option of Ganeti's users file demands
_GANETIS: Final = {"read": Role.READ, "write": Role.OPERATE}


def verdict(call: Call, caller: Principal, rules: AccessRules) -> Role:
    """The role with which luxid carries out a call.

    Raises: RequestRefused: 401: with a name it may be allowed; 403.
    """
    is_kept_out = caller.is_anonymous and rules.require_authentication and call.face is not Face.PAGE
    if rules.ganeti_rights and call.ganeti_rights is not None:
        role = _by_ganeti(call.ganeti_rights, call, caller)
    else:
        role = _by_ours(call, caller, rules)
    if role is not None and not is_kept_out:
        return role
    if caller.is_anonymous:
        raise unauthenticated("this call needs a user and a password, or a token")
    needed = " or ".join(f"'{right.value}'" for right in call.rights)
    raise RequestRefused(403, f"'{caller.name}' lacks the right {needed}; an administrator of the cluster gives it")


def _by_ganeti(options: Sequence[str], call: Call, caller: Principal) -> Role | None:
    if not options or any(caller.rights.role >= _GANETIS[option] for option in options):
        return max(Role.ADMIN, caller.rights.role)
    return Rights(single=caller.rights.single).role_for(call.rights) or None


def _by_ours(call: Call, caller: Principal, rules: AccessRules) -> Role | None:
    everybody = Role.READ if rules.anonymous_read else Role.NONE
    if not call.rights:
        return max(caller.rights.role, everybody)
    is_reading = any(ROLE_OF[right] is Role.READ for right in call.rights)
    return max(caller.rights.role_for(call.rights), everybody if is_reading else Role.NONE) or None


# Callers over the network: tokens, and users with their passwords.


_CHANGES: Final = EventKind.CLOSE_WRITE | EventKind.MOVED_TO | EventKind.MOVED_FROM | EventKind.DELETE
_log: Final = get_log(__name__)


class Authenticator:
    """Names the callers of an installation. Args: clock: seconds since the epoch, for the ends of tokens."""

    def __init__(self, paths: Paths, rules: AccessRules, clock: Callable[[], float] = time.time) -> None:
        self._folder = AccessFolder(paths)
        self._rules = rules
        self._clock = clock
        self._accounts = Accounts(paths)
        self._checks = PasswordChecks()
        self._changed = trio.Event()
        # id and reason of each refused token that the log has told of
        self._told: set[tuple[str, str]] = set()
        # why the folder cannot be made, as the log has told; "": it is there
        self._why_no_folder = ""
        self._accounts.refresh()

    async def identify(self, http: HttpRequest) -> Principal:
        """The caller whom the header `Authorization` names; `NOBODY`: there is none.

        Raises: RequestRefused: 400, 401; 429 and 503: the password was not checked.
        """
        header = http.headers.get("authorization")
        if header is None:
            return NOBODY
        credentials = read_credentials(header)
        if not isinstance(credentials, NamePassword):
            return self._of_bearer(credentials.text)
        found = await self.check_password(credentials.name, credentials.password, host_of(http))
        if found is None:
            raise unauthenticated("there is no such user, or the password is wrong", code="wrong_password")
        return found

    def role_for(self, call: Call, caller: Principal) -> Role:
        """The role with which luxid carries out the call. Raises: RequestRefused: 401, 403."""
        try:
            return verdict(call, caller, self._rules)
        except RequestRefused as refused:
            if refused.status == HTTPStatus.FORBIDDEN:
                _log.warning("access.denied", caller=caller.name, token=caller.token_id, verb=call.verb, path=call.path)
            raise

    def check_unknown(self, face: Face) -> None:
        """For a path or a verb that is not in the table, asked for without a name.

        Raises: RequestRefused: 401: strangers are not told what there is.
        """
        if self._rules.require_authentication and face is not Face.PAGE:
            raise unauthenticated("this server tells nothing without a user and a password, or a token")

    async def check_password(self, name: str, password: str, address: str) -> Principal | None:
        """The user with this password; None: there is none. Raises: RequestRefused: 429 and 503, as `admit`."""
        self._refresh()
        user = self._accounts.user(name)
        if user is not None and self._checks.is_remembered(name, user, password):
            return _of_user(user)
        is_right = await self._checks.is_right(name, user, password, address)
        # he may be gone, or have other rights, after the wait
        self._refresh()
        now = self._accounts.user(name)
        return _of_user(now) if is_right and user is not None and now == user else None

    def named(self, name: str) -> Principal | None:
        """The user of this name, with the rights of now; None: there is none."""
        self._refresh()
        user = self._accounts.user(name)
        return None if user is None else _of_user(user)

    def current(self, caller: Principal) -> Principal | None:
        """The caller with the rights of now; None: the user or the password, or the token, is good no more."""
        self._refresh()
        if not caller.stamp:
            return caller
        found = self._named_before(caller)
        return found if found is not None and found.stamp == caller.stamp else None

    def _named_before(self, caller: Principal) -> Principal | None:
        if caller.token_id is None:
            return self.named(caller.name)
        token = self._accounts.token(caller.token_id)
        return None if token is None or token.state(self._clock()) != "valid" else _of_token(token)

    async def wait_until_over(self, caller: Principal) -> None:
        """Return when the caller's password or token is good no more, or his rights are others: for open streams.

        Cancellation: at any time.
        """
        while self.current(caller) == caller:
            if not caller.stamp:
                await trio.sleep_forever()
            changed = self._changed
            with trio.move_on_after(self._left_s(caller)):
                await changed.wait()

    def _left_s(self, caller: Principal) -> float:
        token = None if caller.token_id is None else self._accounts.token(caller.token_id)
        if token is None or token.expires_at is None:
            return float("inf")
        return max(0.0, token.expires_at - self._clock())

    async def follow(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Wake those who wait when the files change; for a task of its own.

        Where the folder cannot be made or watched, the log says so, and it is tried again.
        """
        task_status.started()
        self._make_folder()
        async with FolderWatch(self._folder.path, kinds=_CHANGES) as watch:
            while True:
                self._refresh()
                if any(event.needs_rescan for event in await watch.events()):
                    # it may have been removed
                    self._make_folder()

    def _make_folder(self) -> None:
        try:
            self._folder.make()
        except (OSError, Denied) as error:
            reason = explain(error)
            if reason != self._why_no_folder:
                _log.error(
                    "access.no_folder", path=self._folder.path, reason=reason, going_on="again until it succeeds"
                )
            self._why_no_folder = reason
        else:
            self._why_no_folder = ""

    def _refresh(self) -> None:
        if self._accounts.refresh():
            self._changed.set()
            self._changed = trio.Event()

    def _of_bearer(self, text: str) -> Principal:
        self._refresh()
        shown = TokenText.parse(text)
        token = None if shown is None else self._accounts.token(shown.id)
        try:
            if shown is None or token is None or not token.is_of(shown.secret):
                raise unknown_token()
            token.check(self._clock())
        except BadToken as error:
            self._tell(token, error)
            raise bad_token(error) from None
        return _of_token(token)

    def _tell(self, token: Token | None, error: BadToken) -> None:
        # once for each reason: a program that goes on trying must not fill the disk with lines
        if token is not None and (token.id, error.code) not in self._told:
            self._told.add((token.id, error.code))
            _log.warning("access.bad_token", token=token.id, name=token.name, reason=error.code)


@functools.lru_cache(MOST_REMEMBERED)
def _of_user(user: User) -> Principal:
    stamp = hashlib.sha256(user.password.encode(errors="surrogatepass")).hexdigest()
    return Principal(user.name, user.grants.rights, user.grants.unix_user, stamp=stamp)


def _of_token(token: Token) -> Principal:
    return Principal(token.name, token.grants.rights, token.run_as, token.id, stamp=token.digest)


# All callers: those over the network, visitors of the page, and users of this machine.
#
# Source: DESIGN section 4, "Who is calling", and section 15.

# seconds for which the name of a user of this machine serves
_NAME_FRESH_S: Final = 30.0
_MOST_PEERS: Final = 1000

# whom the cookie of a page names; None: nobody; raises Silent: it is not known now
Visitor = Callable[[HttpRequest], Awaitable[Principal | None]]


class RequestCallers:
    """Names the caller of each request: over the Unix socket the kernel says it, else the request does."""

    def __init__(self, gate: Authenticator, visitor: Visitor | None = None) -> None:
        self.gate = gate
        self._visitor = visitor
        # users over the Unix socket, and until when their names serve
        self._peers: dict[tuple[int, Role], tuple[Principal, float]] = {}

    async def identify(self, http: HttpRequest, face: Face) -> Principal:
        """The caller; credentials count more than the peer, which may be a proxy.

        Raises: RequestRefused: as of the gate. Unavailable: users cannot be read now. As of `Visitor`.
        """
        peer = peer_over_socket(http)
        # elsewhere a cookie counts for nothing: another site could make a browser send it
        is_page = face is Face.PAGE and "authorization" not in http.headers
        if is_page and self._visitor is not None and (visitor := await self._visitor(http)) is not None:
            return visitor
        if peer is None or "authorization" in http.headers:
            return await self.gate.identify(http)
        return await self._of_peer(peer)

    async def _of_peer(self, peer: Peer) -> Principal:
        """Who the kernel says it is; the name of a user is looked up once a while, as that takes a thread."""
        key, now = (peer.uid, peer.role), trio.current_time()
        known = self._peers.get(key)
        if known is None or now >= known[1]:
            if len(self._peers) >= _MOST_PEERS:
                self._peers.clear()
            known = self._peers[key] = await in_thread(_principal, peer), now + _NAME_FRESH_S
        return known[0]

    def check_unknown(self, face: Face, http: HttpRequest) -> None:
        """Raises: RequestRefused: 401."""
        if peer_over_socket(http) is None and "authorization" not in http.headers:
            self.gate.check_unknown(face)


def _principal(peer: Peer) -> Principal:
    """Raises: Unavailable: users cannot be read now; without a login, the caller's own jobs would not be his."""
    if (found := user_numbered(peer.uid)) is None:
        return Principal(str(peer.uid), Rights(peer.role))
    return Principal(found.pw_name, Rights(peer.role), found.pw_name)
