"""How luxid and the fork server talk, and the handshake between luxid and a job process.

On the control connection luxid sends `startJob`; one end of a socket pair travels along as
ancillary data (SCM_RIGHTS) with the first byte of the message. The fork server answers the
pid, and whenever a child of its ends it tells every control connection by the notification
`jobExited`. Messages are framed and enveloped as everywhere (JSON-RPC for the notification).

Over the socket pair (or, with an external executor, over its stdin and stdout) go these messages,
each ended by ETX; P is the job process, L luxid:

    P -> L   path of P's livelock, which P has created and locked
    L        writes path and pid into the job file, durably
    L -> P   (empty)  you may start
    L -> P   JSON list, for each opcode null or the object of its secrets

An external executor does as Ganeti's: between the last two it asks, by an empty message, for the secrets. Ours gets
them with the go-ahead, in one write, and luxid need not come back to it.

One that asks with the word `pause` instead says that it heeds requests to pause: at SIGUSR1, and between two opcodes,
it looks for the file `<job id>.pause` beside the messages of priorities; while that is there it begins no opcode, gives
up the locks it holds or waits for, writes *queued* for the opcode, removes its livelock and ends.

A process of ours that cannot make its livelock sends `error: ` and the reason in place of the path, and ends: that is
no fault of the job, which is started again later.

If luxid dies before the go-ahead, P reads end-of-file, removes its livelock and exits: the job
file then says queued and names a dead livelock, so the next luxid starts the job again, once.

Source: luxid.md 9.1; DESIGN sections 3 and 7.
"""

from collections.abc import Mapping, Sequence

import attrs

from common.ids import JobId
from protocol.messages import Request

GO_AHEAD = b""
WANT_SECRETS = b""
WANT_SECRETS_AND_PAUSES = b"pause"
# the secret parameters of a job, an item an opcode; null for one that has none
Secrets = Sequence[Mapping[str, object] | None]
# begins what a process says that cannot start for the moment; a path begins with a slash
REFUSAL = b"error: "


@attrs.frozen
class StartJob(Request[int]):
    """Fork a process for this job; answers its pid. The child's end of the socket pair goes along."""

    METHOD = "startJob"
    job_id: JobId


@attrs.frozen
class JobExited(Request[tuple[()]]):
    """Notification of the fork server: the process of a job has ended (wait status as of waitpid)."""

    METHOD = "jobExited"
    job_id: JobId
    pid: int
    wait_status: int
