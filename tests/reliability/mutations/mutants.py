"""The safeguards that `mutations` takes out, one at a time, and the tests that have to notice."""

from typing import Final

import attrs


@attrs.frozen
class Mutant:
    """A safeguard, taken out of one file."""

    # what is no longer done
    name: str
    path: str
    # this text, which is there once, becomes the other
    old: str
    new: str
    # arguments of pytest
    tests: tuple[str, ...]


def _mutant(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, path, old, new, tests)


_ATOMIC: Final = "common/system/atomicfile.py"
_LIVELOCK: Final = "common/system/livelock.py"
_LIFE: Final = "daemons/jobproc/life.py"
_DEATHS: Final = "daemons/luxid/processes/deaths.py"
_STARTING: Final = "daemons/luxid/processes/starting.py"
_STORE: Final = "daemons/luxid/files/store.py"
_TABLE: Final = "daemons/wconfd/core/locks/table.py"
_RULES: Final = "daemons/wconfd/core/locks/rules.py"
_LOCKS: Final = ("tests/unit/wconfd/test_lock_table.py", "tests/property/wconfd/test_lock_table.py")

MUTANTS: Final = (
    # durable files
    _mutant(
        "sync a content before its rename",
        _ATOMIC,
        "        for descriptor in descriptors:\n            os.fsync(descriptor)\n    finally:",
        "    finally:",
        "tests/unit/common/system/test_atomicfile.py",
    ),
    _mutant(
        "sync the folder after a rename",
        _ATOMIC,
        "        while left:\n            _sync_folder(left[0])\n",
        "        while left:\n",
        "tests/unit/common/system/test_atomicfile.py",
    ),
    _mutant(
        "tell a missing fsync of a folder from a change that was not made",
        _ATOMIC,
        "        raise NotYetDurable(error, left) from error",
        "        raise OSError(error.errno, error.strerror) from error",
        "tests/unit/common/system/test_not_yet_durable.py",
    ),
    _mutant(
        "make a new folder durable before anything is moved into it",
        _ATOMIC,
        "    _make_folders(dict.fromkeys(os.path.dirname(target) for _, target in moves))\n",
        "    for _, target in moves:\n        os.makedirs(os.path.dirname(target), exist_ok=True)\n",
        "tests/unit/common/system/test_atomicfile.py",
    ),
    _mutant(
        "follow no link when a file is made",
        "common/system/log.py",
        " | os.O_CLOEXEC | os.O_NOFOLLOW\n",
        " | os.O_CLOEXEC\n",
        "tests/daemon/system/test_foreign_folders.py",
    ),
    # livelocks
    _mutant(
        "lock a livelock against those who probe as Ganeti does",
        _LIVELOCK,
        "                fcntl.lockf(fd, fcntl.LOCK_EX)\n",
        "",
        "tests/unit/common/system/test_livelock.py",
        "tests/daemon/system/test_livelock_processes.py",
    ),
    _mutant(
        "lock a livelock so that what inherits it stands in",
        _LIVELOCK,
        "                fcntl.flock(fd, fcntl.LOCK_EX)\n                path",
        "                path",
        "tests/unit/common/system/test_livelock.py",
        "tests/daemon/system/test_livelock_processes.py",
    ),
    _mutant(
        "leave one's own livelock untouched by a probe",
        _LIVELOCK,
        "        if path in _held:\n            return Life.ALIVE\n",
        "",
        "tests/unit/common/system/test_livelock.py",
        "tests/daemon/system/test_livelock_processes.py",
    ),
    _mutant(
        "take a probe that cannot be made for no proof",
        _LIVELOCK,
        "    return Life.UNKNOWN if number in _NO_PROOFS else Life.ALIVE",
        "    return Life.DEAD if number in _NO_PROOFS else Life.ALIVE",
        "tests/unit/common/system/test_livelock.py",
    ),
    # a job's life
    _mutant(
        "write running before anything is executed",
        _LIFE,
        "        self._record.begin_running(index)\n        try:\n            unit.check_prereq(context)\n",
        "        try:\n            unit.check_prereq(context)\n",
        "tests/daemon/jobproc/test_life.py",
    ),
    _mutant(
        "end a job whose process died with an opcode under way",
        "daemons/luxid/core/queue/recovery.py",
        "    return Fate.CONTINUE if _BETWEEN_OPCODES.issuperset([op.state for op in job.ops]) else Fate.DEAD",
        "    return Fate.CONTINUE",
        "tests/unit/luxid/test_recovery.py",
    ),
    _mutant(
        "write the process into the job file before the go-ahead",
        _STARTING,
        "        await self._write(job)\n        record = self._jobs.processes.has(job.job_id, livelock)\n",
        "        record = self._jobs.processes.has(job.job_id, livelock)\n",
        "tests/daemon/luxid/processes/test_starting.py",
        "tests/daemon/luxid/processes/test_handshake.py",
        "tests/daemon/luxid/processes/test_starter_state.py",
        "tests/crash/test_restarts.py",
    ),
    _mutant(
        "hold a job whose file cannot be read",
        _DEATHS,
        "await self._jobs.unread.until_read(job_id, self._read_whole)\n        except (NotFound, DamagedFile)",
        "self._read_whole(job_id)\n        except (NotFound, DamagedFile, GantryError)",
        "tests/daemon/luxid/files/test_unread_files.py",
    ),
    _mutant(
        "never run a job again of which nobody knows what it did",
        _DEATHS,
        "            await self._end_unknown(job, error)\n            return\n",
        "            self._events.requeue(job)\n            return\n",
        "tests/daemon/luxid/files/test_unread_files.py",
        "tests/daemon/luxid/processes/test_recovery.py",
    ),
    _mutant(
        "sync what a dead process has renamed before it is told",
        _DEATHS,
        "        await self._store.files.take_up([job_id])\n",
        "",
        "tests/daemon/luxid/files/test_durable_news.py",
    ),
    _mutant(
        "count no start against a job that is not its fault",
        _STARTING,
        "            await self._attempts.back_off(job, error.message)\n        except RemoteError",
        "            await self._attempts.failed(job, error.message)\n        except RemoteError",
        "tests/daemon/luxid/processes/test_starter_state.py",
        "tests/daemon/luxid/processes/test_starting.py",
        "tests/daemon/luxid/processes/test_handshake.py",
    ),
    # the queue
    _mutant(
        "write the serial with the jobs that it covers",
        _STORE,
        "        head = [*(attrs.evolve(write, precedes=True) for write in before), serial]\n",
        "        head = [attrs.evolve(write, precedes=True) for write in before]\n",
        "tests/daemon/luxid/submission/test_durable_submissions.py",
        "tests/daemon/luxid/submission/test_submit_job.py",
        "tests/daemon/luxid/processes/test_restart.py",
    ),
    _mutant(
        "note a batch before the first of its jobs is there",
        _STORE,
        "            before.append(note_of(self.paths, jobs[0].job_id, len(jobs), (write.path for write in first)))\n",
        "            before.append(FileWrite(self.paths.submissions / 'batch', b'[]'))\n",
        "tests/crash/test_batches_cut_off.py",
    ),
    _mutant(
        "make a key durable before its jobs",
        _STORE,
        "(attrs.evolve(write, precedes=True) for write in before)",
        "(attrs.evolve(write, precedes=False) for write in before)",
        "tests/crash/test_batches_cut_off.py",
        "tests/daemon/luxid/submission/test_durable_submissions.py",
        "tests/daemon/luxid/submission/test_submission_keys.py",
    ),
    _mutant(
        "give out no id that any file bears",
        _STORE,
        "        self._serial = max(self._serial, at_least)\n",
        "        pass\n",
        "tests/daemon/luxid/processes/test_restart.py",
        "tests/daemon/luxid/processes/test_recovery.py",
    ),
    _mutant(
        "lock the queue against a second daemon",
        "daemons/luxid/files/queuefolder.py",
        "            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        "tests/daemon/luxid/processes/test_restart.py",
        "tests/daemon/system/test_exclusion.py",
    ),
    # locks
    _mutant(
        "grant nothing that conflicts with what others hold",
        _TABLE,
        "    if blocked_on:\n        return Verdict(table, blocked_on)\n",
        "",
        *_LOCKS,
    ),
    _mutant(
        "keep a group from those who want a lock of it",
        _TABLE,
        "            if group:\n                yield Gate(group, False, request.mode)\n",
        "",
        *_LOCKS,
    ),
    _mutant(
        "keep the locks of a group from those who want the group",
        _TABLE,
        "            if lock.is_group:\n                yield Gate(lock, True, request.mode)\n",
        "",
        *_LOCKS,
    ),
    _mutant(
        "keep to the order of locks",
        _RULES,
        "    for request in requests:\n        _refuse_disorder(holdings, request)\n",
        "",
        *_LOCKS,
    ),
    _mutant(
        "refuse an exclusive lock under a group that is shared",
        _RULES,
        "    for request in requests:\n        _refuse_exclusive_under_shared(holdings, request)\n",
        "",
        *_LOCKS,
    ),
    _mutant(
        "show no change of locks that is not written",
        "daemons/wconfd/steps.py",
        "                ticket.error = ticket.error or error\n            return self._state\n",
        "                ticket.error = ticket.error or error\n            return after\n",
        "tests/unit/wconfd/test_wconfd_steps.py",
    ),
    _mutant(
        "sync each line of the journal",
        "daemons/wconfd/lockjournal.py",
        "O_DSYNC",
        "O_CLOEXEC",
        "tests/unit/wconfd/test_lock_journal.py",
        "tests/daemon/wconfd/test_durability.py",
        "tests/daemon/wconfd/locks/test_lock_files.py",
    ),
    _mutant(
        "outdate the old journal before locks.data is replaced",
        "daemons/wconfd/lockfiles.py",
        "            self._make_outdated(name)\n",
        "",
        "tests/daemon/wconfd/locks/test_lock_files.py",
        "tests/property/wconfd/test_lock_journal.py",
        "tests/daemon/wconfd/test_durability.py",
    ),
    _mutant(
        "free a dead owner by the event of its death",
        "daemons/wconfd/deaths.py",
        "                    for path in paths:\n                        nursery.start_soon(self._probe, path)\n",
        "",
        "tests/daemon/wconfd/locks/test_deaths.py",
    ),
    _mutant(
        "try again to free a dead owner after an error of the disk",
        "daemons/wconfd/deaths.py",
        "            self._has_unburied.set()\n",
        "",
        "tests/daemon/wconfd/locks/test_deaths.py",
        "tests/daemon/wconfd/test_disk_full.py",
    ),
    # signals and users
    _mutant(
        "signal nobody who only has a job's old number",
        "daemons/luxid/processes/signals.py",
        "    if is_ours or ((is_ours is None or may_be_wrapper) and _was_before(process, job.livelock)):\n",
        "    if True:\n",
        "tests/daemon/luxid/processes/test_kill_job.py",
        "tests/daemon/luxid/processes/test_cancel_job.py",
    ),
    _mutant(
        "refuse folders that others can write",
        "common/system/trust.py",
        "    if status.st_mode & stat.S_IWOTH:\n",
        "    if False:\n",
        "tests/unit/common/system/test_trust.py",
    ),
    _mutant(
        "refuse folders of other users",
        "common/system/trust.py",
        "    if status.st_uid not in (0, os.geteuid()):\n",
        "    if False:\n",
        "tests/unit/common/system/test_trust.py",
    ),
    _mutant(
        "hang up where somebody else than the daemon listens",
        "protocol/dial.py",
        "        _check_server(sock, path, daemon)\n",
        "",
        "tests/daemon/system/test_foreign_folders.py",
    ),
    _mutant(
        "look at the role of a caller",
        "common/access.py",
        "    if role < needed:\n",
        "    if False:\n",
        "tests/unit/common/test_access.py",
        "tests/unit/luxid/test_rights.py",
    ),
    _mutant(
        "run a command as its submitter",
        "daemons/luxid/core/queue/rights.py",
        "attrs.evolve(op, user=_user_of(op, submitter, host, where)) if isinstance(op, OpRunCommand) else op\n",
        "op\n",
        "tests/unit/luxid/test_rights.py",
    ),
)
