"""The messages between luxid and the fork server, and the handshake between luxid and a job process.

On the control connection luxid first asks for the `version` of these messages: the fork server may run older code,
as it outlives luxid. Then it sends notifications `startJob`; one end of a socket pair travels along as ancillary data
(SCM_RIGHTS) with the first byte of the message. All that follows is said over that pair. If the job has an earlier
process that is about to end, the fork server waits for that.
Messages are framed and enveloped as everywhere (JSON-RPC for the notifications).

Over the socket pair (or, with an external executor, over its stdin and stdout) go these messages,
each ended by ETX; P is the job process, L luxid:

    P -> L   path of P's livelock, which P has created and locked
    L        where other nodes keep copies: writes path and pid into the job file, durably
    L -> P   (empty)  you may start
    L -> P   JSON list, for each opcode null or the object of its secrets

An external executor behaves like Ganeti's: between the last two messages it requests the secrets by an empty message.
Ours gets them with the go-ahead, in one write, so luxid need not wait for a request.

An executor that sends the word `pause` instead supports requests to pause: at SIGUSR1, and between two opcodes,
it looks for the file `<job id>.pause` beside the messages of priorities. While the file exists it begins no opcode,
releases the locks it holds or waits for, writes *queued* for the opcode, removes its livelock and ends.

If our process cannot make its livelock, or lacks descriptors or memory before, it sends `error: ` and the reason in
place of the path, and ends; if no process can be made, the fork server sends it. That is not the job's failure, so the
job is started again later.

If luxid dies before the go-ahead, P reads end-of-file, removes its livelock and exits: the job
file then says queued and no livelock of the job is held, so the next luxid starts the job again, once.
"""

from collections.abc import Mapping, Sequence

import attrs

from common.ids import JobId
from protocol.messages import Request

# the second one: before, a start was a call, and the ends of processes were told
VERSION = 2
GO_AHEAD = b""
WANT_SECRETS = b""
WANT_SECRETS_AND_PAUSES = b"pause"
# secret parameters of a job, one item for each opcode; null for an opcode without any
Secrets = Sequence[Mapping[str, object] | None]
# prefix of the message of a process that cannot start at the moment; a path begins with a slash
REFUSAL = b"error: "


@attrs.frozen
class Version(Request[int]):
    """Returns the number of these messages' version, `VERSION`."""

    METHOD = "version"


@attrs.frozen
class StartJob(Request[None]):
    """Notification: fork a process for this job. The child's end of the socket pair goes along."""

    METHOD = "startJob"
    job_id: JobId
