"""Read the output of a job's commands; ours."""

from typing import Final

import trio

from common.errors import JobLost, Unavailable
from common.ids import JobId
from common.system.inthread import in_thread
from daemons.luxid.bells import wait_for_any
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.livejobs import LiveJobs
from daemons.luxid.outputs import OutputWatch, decode_whole, read_output
from protocol.luxi.output import JobOutput, OutputStream, ReadJobOutput
from protocol.peer import Peer

LONGEST_WAIT_S: Final = 89.0


class Output:
    """The method that reads output."""

    def __init__(self, jobs: LiveJobs, store: Store, watch: OutputWatch) -> None:
        self._jobs = jobs
        self._store = store
        self._paths = store.paths
        self._watch = watch

    async def read_job_output(self, call: ReadJobOutput, peer: Peer) -> JobOutput:
        """Raises: JobLost: the job does not exist, not even in the archive. Denied: it belongs to another user."""
        await self.check_may_read(call.job_id, peer)
        answer = self.read(call)
        timeout_s = min(call.timeout, LONGEST_WAIT_S)
        if answer.text or answer.is_end or timeout_s <= 0:
            return answer
        with (
            self._watch.listen(call.job_id) as printed,
            self._jobs.bells.listen(call.job_id) as changed,
            trio.move_on_after(timeout_s),
        ):
            while not ((answer := self.read(call)).text or answer.is_end):
                await wait_for_any(printed, changed)
        return answer

    async def check_may_read(self, job_id: JobId, peer: Peer) -> None:
        """Raises: as `read_job_output`."""
        if job_id not in self._jobs.table and not self._store.is_archived(job_id):
            raise JobLost(f"there is no job {job_id}, neither in the queue nor in the archive")
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if viewer.sees_all:
            return
        job = self._jobs.table.get(job_id)
        if job is None:
            job = await in_thread(self._store.find_archived, job_id)
        if job is None:
            raise JobLost(f"the file of job {job_id} cannot be read")
        viewer.check_owned(job, "the output")

    def read(self, call: ReadJobOutput) -> JobOutput:
        """Read at once what there is. Raises: Unavailable: a file cannot be read at the moment."""
        # checked before reading: all output is written before the job ends
        is_final = self._is_final(call.job_id)
        is_error = call.stream is OutputStream.ERROR
        base = self._paths.error_output_file(call.job_id) if is_error else self._paths.output_file(call.job_id)
        try:
            piece = read_output(base, max(call.offset, 0))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the output of job {call.job_id} cannot be read: {reason}; try again") from error
        if not piece.content:
            return JobOutput("", piece.offset, is_final)
        if call.as_bytes:
            return JobOutput(piece.content.decode("latin-1"), piece.offset + len(piece.content), False)
        text, size = decode_whole(piece.content, is_end=False)
        if not size and is_final:
            text, size = decode_whole(piece.content, is_end=True)
        return JobOutput(text, piece.offset + size, False)

    def _is_final(self, job_id: JobId) -> bool:
        return self._jobs.phase(job_id) is None
