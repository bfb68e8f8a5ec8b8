"""Read the output of a job's commands; ours."""

from typing import Final

import trio

from common.errors import JobLost, NotFound, Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.queue.tries import OutputRange, output_of_try, tried_index, tries_of
from common.system.inthread import in_thread
from daemons.luxid.bells import wait_for_any
from daemons.luxid.core.queue.privacy import Deed, Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.outputs import OutputWatch, decode_whole, read_output
from protocol.luxi.output import JobOutput, OutputStream, ReadJobOutput
from protocol.peer import Peer

LONGEST_WAIT_S: Final = 89.0
WHOLE: Final = OutputRange(0, None)


class Output:
    """The method that reads output."""

    def __init__(self, jobs: LiveJobs, store: Store, watch: OutputWatch) -> None:
        self._jobs = jobs
        self._store = store
        self._paths = store.paths
        self._watch = watch

    async def read_job_output(self, call: ReadJobOutput, peer: Peer) -> JobOutput:
        """Raises: JobLost: the job does not exist, not even in the archive. Denied: it belongs to another user.

        NotFound: it has had no such try. Unavailable: as `read`.
        """
        await self.check_may_read(call.job_id, peer)
        part = await self._part(call)
        answer = self.read(call, part)
        timeout_s = min(call.timeout, LONGEST_WAIT_S)
        if answer.text or answer.is_end or timeout_s <= 0:
            return answer
        with (
            self._watch.listen(call.job_id) as printed,
            self._jobs.bells.listen(call.job_id) as changed,
            trio.move_on_after(timeout_s),
        ):
            while not ((answer := self.read(call, part)).text or answer.is_end):
                await wait_for_any(printed, changed)
                part = await self._part(call)
        return answer

    async def check_may_read(self, job_id: JobId, peer: Peer) -> None:
        """Raises: as `read_job_output`."""
        if job_id not in self._jobs.table and not self._store.is_archived(job_id):
            raise JobLost(f"there is no job {job_id}, neither in the queue nor in the archive")
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if viewer.sees_all:
            return
        viewer.check_owned(await self._job(job_id), Deed.READ_OUTPUT)

    async def _job(self, job_id: JobId) -> Job:
        """Raises: JobLost: its file cannot be read."""
        job = self._jobs.table.get(job_id)
        if job is None:
            job = await in_thread(self._store.find_archived, job_id)
        if job is None:
            raise JobLost(f"the file of job {job_id} cannot be read")
        return job

    async def _part(self, call: ReadJobOutput) -> OutputRange:
        """Where the wanted output lies. Raises: JobLost; NotFound: the job has had no such try."""
        if call.of_try is None:
            return WHOLE
        job = await self._job(call.job_id)
        part = output_of_try(job, call.of_try, is_error=call.stream is OutputStream.ERROR)
        if part is None:
            index = tried_index(job)
            count = 1 if index is None else len(tries_of(job.ops[index])) + 1
            known = "one try" if count == 1 else f"{count} tries"
            raise NotFound(f"job {call.job_id} has had {known}; there is no try {call.of_try}")
        return part

    def read(self, call: ReadJobOutput, part: OutputRange = WHOLE) -> JobOutput:
        """Read at once what there is. Raises: Unavailable: a file cannot be read at the moment.

        Args: part: where the wanted output lies.
        """
        # checked before reading: all output is written before the job ends
        is_final = self._is_final(call.job_id)
        is_error = call.stream is OutputStream.ERROR
        base = self._paths.error_output_file(call.job_id) if is_error else self._paths.output_file(call.job_id)
        try:
            piece = read_output(base, max(call.offset, part.begin))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the output of job {call.job_id} cannot be read: {reason}; try again") from error
        # of a try that is over all has been written
        is_over = is_final or part.end is not None
        content = piece.content if part.end is None else piece.content[: max(part.end - piece.offset, 0)]
        if not content:
            return JobOutput("", piece.offset, is_over)
        if call.as_bytes:
            return JobOutput(content.decode("latin-1"), piece.offset + len(content), False)
        text, size = decode_whole(content, is_end=False)
        if not size and is_over:
            text, size = decode_whole(content, is_end=True)
        return JobOutput(text, piece.offset + size, False)

    def _is_final(self, job_id: JobId) -> bool:
        return self._jobs.phase(job_id) is None
