"""Joining: what a new machine asks at the master's door, and the replies. JSON objects over HTTPS; ours.

The master shows the cluster's certificate, whose fingerprint the machine has from its token. `Join` needs the token's
secret; the others need the certificate that `Join` has returned.

Source: DESIGN section 13, "Joining".
"""

from collections.abc import Mapping
from typing import ClassVar, Final, TypeVar

import attrs
import orjson

from common.errors import GantryError, InvalidRequest, RemoteError
from common.jsontext import read_json
from common.wire import structure, unstructure

T = TypeVar("T")

JOIN_PORT: Final = 1812
# bytes of a request, and of a reply
MAX_REQUEST: Final = 64 * 2**10
MAX_REPLY: Final = 4 * 2**20
# seconds by which the clocks of two machines may differ; Ganeti's
MAX_SKEW_S: Final = 150.0
# seconds for which a request for news may be held
NEWS_S: Final = 20.0


@attrs.frozen
class Join:
    """A new machine asks to be let in, with a key of its own."""

    PATH: ClassVar[str] = "/join"
    token_id: str
    secret: str = attrs.field(repr=False)
    # PEM of the request for a certificate
    request: str
    node_name: str
    # its primary address
    address: str
    # version of the configuration's format
    version: int
    # its clock, seconds since the epoch
    now: float


@attrs.frozen
class Admitted:
    """What makes the machine a node."""

    # PEM of its certificate
    certificate: str
    # PEM of the cluster's certificate, without a key
    cluster_certificate: str
    cluster_name: str
    # key -> content of the file
    ssconf: Mapping[str, str]
    # of all node daemons
    port: int
    # tables of settings that all nodes have in common
    shared: Mapping[str, Mapping[str, object]] = attrs.field(factory=dict)


@attrs.frozen
class Ready:
    """The machine's node daemon listens: the cluster may take the node in."""

    PATH: ClassVar[str] = "/ready"
    token_id: str


@attrs.frozen
class TakingIn:
    """The job that adds the node."""

    job_id: int


@attrs.frozen
class AskNews:
    """Wait until the job has something new."""

    PATH: ClassVar[str] = "/news"
    token_id: str
    # what the machine knows: status of the job, and the last entry of its log
    status: str = ""
    serial: int = 0


@attrs.frozen
class JoinProgress:
    """The state of the job."""

    status: str
    serial: int
    # new lines of its log
    lines: tuple[str, ...] = ()
    # why it has failed
    error: str = ""


Request = Join | Ready | AskNews


@attrs.frozen
class JoinRefusal:
    """A refusal."""

    code: str
    message: str


def to_body(value: object) -> bytes:
    return orjson.dumps(unstructure(value))


def failure_body(error: GantryError) -> bytes:
    return orjson.dumps({"error": unstructure(JoinRefusal(error.code, error.message))})


def read_body(body: bytes, kind: type[T], what: str) -> T:
    """Raises: InvalidRequest: the body is not JSON, or not of this class."""
    try:
        value = read_json(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the {what} is not JSON: {error}") from None
    return structure(value, kind, what)


def read_failure(body: bytes) -> RemoteError | None:
    """The error that a reply is; None: it is none that the master has written."""
    try:
        value = orjson.loads(body)
        failure = structure(value["error"], JoinRefusal, "error")
    except (orjson.JSONDecodeError, InvalidRequest, KeyError, TypeError):
        return None
    return RemoteError(failure.message, code=failure.code, wire_name="GenericError")
