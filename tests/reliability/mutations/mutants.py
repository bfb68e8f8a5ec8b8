"""The safeguards that `mutations` takes out, one at a time, and the tests that have to notice.

The tests are the cheapest ones that say what the safeguard is for; each alone is enough.
"""

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
    # ids as pytest has them; `file::test` means it with all its parameters
    tests: tuple[str, ...]


def _mutant(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, path, old, new, tests)


_ATOMIC: Final = "common/durable/atomicfile.py"
_FOLDERS: Final = "common/durable/folders.py"
_LIVELOCK: Final = "common/system/livelock.py"
_LIFE: Final = "daemons/jobproc/life.py"
_LOADING: Final = "daemons/luxid/files/loading.py"
_CONVERSATION: Final = "daemons/jobproc/nodecommands/conversation.py"
_DEATHS: Final = "daemons/luxid/processes/deaths.py"
_STARTING: Final = "daemons/luxid/processes/starting.py"
_STORE: Final = "daemons/luxid/files/store.py"
_TABLE: Final = "daemons/wconfd/core/locks/table.py"
_NODE_APPLICATION: Final = "daemons/noded/rpc.py"
_NODE_CHANGES: Final = "daemons/wconfd/core/config/nodechanges.py"
_RULES: Final = "daemons/wconfd/core/locks/table.py"

MUTANTS: Final = (
    # durable files
    _mutant(
        "sync a content before its rename",
        _ATOMIC,
        "        for descriptor in descriptors:\n            os.fsync(descriptor)\n    finally:",
        "    finally:",
        "tests/unit/common/durable/test_atomicfile.py::test_no_file_is_renamed_before_all_contents_are_durable",
    ),
    _mutant(
        "sync the folder after a rename",
        _FOLDERS,
        "        while left:\n            _sync_folder(left[0])\n",
        "        while left:\n",
        "tests/unit/common/durable/test_atomicfile.py::test_a_batch_costs_one_fsync_a_file_and_one_a_folder",
    ),
    _mutant(
        "tell a missing fsync of a folder from a change that was not made",
        _FOLDERS,
        "        raise NotYetDurable(error, left) from error",
        "        raise OSError(error.errno, error.strerror) from error",
        "tests/unit/common/durable/test_not_yet_durable.py::test_a_write_whose_folder_cannot_be_synced_is_made_and_says_so",
    ),
    _mutant(
        "make a new folder durable before anything is moved into it",
        "common/durable/atomicfile.py",
        "    make_folders(dict.fromkeys(os.path.dirname(target) for _, target in moves))\n",
        "    for _, target in moves:\n        os.makedirs(os.path.dirname(target), exist_ok=True)\n",
        "tests/unit/common/durable/test_atomicfile.py::test_nothing_is_moved_into_a_folder_that_is_not_durable",
    ),
    _mutant(
        "follow no link when a file is made",
        "common/system/log.py",
        " | os.O_CLOEXEC | os.O_NOFOLLOW\n",
        " | os.O_CLOEXEC\n",
        "tests/daemon/system/test_foreign_folders.py::test_a_link_in_the_place_of_a_log_is_not_followed",
    ),
    # livelocks
    _mutant(
        "lock a livelock against those who probe as Ganeti does",
        _LIVELOCK,
        "                fcntl.lockf(fd, fcntl.LOCK_EX)\n",
        "",
        "tests/daemon/system/test_livelock_processes.py::test_a_holder_is_alive_until_it_is_killed_and_dead_at_once_after",
    ),
    _mutant(
        "lock a livelock so that what inherits it stands in",
        _LIVELOCK,
        "                fcntl.flock(fd, fcntl.LOCK_EX)\n                path",
        "                path",
        "tests/daemon/system/test_livelock_processes.py::test_a_command_that_inherited_the_descriptor_keeps_a_dead_holder_alive",
    ),
    _mutant(
        "leave one's own livelock untouched by a probe",
        _LIVELOCK,
        "        if path in _held:\n            return Life.ALIVE\n",
        "",
        "tests/unit/common/system/test_livelock.py::test_ones_own_livelock_is_alive_even_if_somebody_deleted_the_file",
    ),
    _mutant(
        "take a probe that cannot be made for no proof",
        _LIVELOCK,
        "    return Life.UNKNOWN if number in _NO_PROOFS else Life.ALIVE",
        "    return Life.DEAD if number in _NO_PROOFS else Life.ALIVE",
        "tests/unit/common/system/test_livelock.py::test_a_probe_that_cannot_be_made_proves_nothing",
    ),
    # a job's life
    _mutant(
        "write running before anything is executed",
        _LIFE,
        "            self._record.begin_running(index)\n        try:\n            unit.check_prereq(context)\n"
        "            # a dry run ends here: everything up to here refuses as in earnest\n"
        "            return None if op.dry_run else unit.run(context)\n",
        "            pass\n        try:\n            unit.check_prereq(context)\n"
        "            result = unit.run(context)\n"
        "            self._record.begin_running(index)\n            return result\n",
        "tests/daemon/jobproc/test_life.py::test_log_line_is_seen_while_the_opcode_runs",
    ),
    _mutant(
        "end a job whose process died with an opcode under way",
        "daemons/luxid/core/queue/recovery.py",
        "    return Fate.CONTINUE if _BETWEEN_OPCODES.issuperset([op.state for op in job.ops]) else Fate.DEAD",
        "    return Fate.CONTINUE",
        "tests/unit/luxid/queue/test_recovery.py::test_the_file_and_the_livelock_tell_what_a_job_is",
        "tests/unit/luxid/queue/test_recovery.py::test_results_and_reasons_say_that_the_process_died",
    ),
    _mutant(
        "tell the other nodes of the process before the go-ahead",
        _STARTING,
        "        if not is_ours or self._store.files.are_copied:\n            await self._write(job)\n",
        "",
        "tests/daemon/luxid/files/test_copies.py::test_a_job_begins_when_the_others_know_that_it_has_a_process",
    ),
    _mutant(
        "know a process that has written nothing yet by its livelock",
        _LOADING,
        "    if (livelock := living.get(job_id)) is None:\n        return FoundJob(job, judge(job, is_alive=False))\n",
        "    if (livelock := None) is None:\n        return FoundJob(job, judge(job, is_alive=False))\n",
        "tests/daemon/luxid/files/test_reading_at_start.py::test_a_process_that_has_written_nothing_yet_is_known_by_its_livelock",
    ),
    _mutant(
        "sync the end of a job before a step that follows it",
        _LIFE,
        "        if acts:\n            self._record.make_durable()\n",
        "",
        "tests/unit/jobproc/test_unwell_disk.py::test_what_follows_the_end_begins_when_the_end_is_durable",
    ),
    _mutant(
        "hold a job whose file cannot be read",
        _DEATHS,
        "await self._jobs.unread.until_read(job_id, self._read_whole)\n        except (NotFound, DamagedFile)",
        "self._read_whole(job_id)\n        except (NotFound, DamagedFile, GantryError)",
        "tests/daemon/luxid/files/test_unread_files.py::test_a_dead_job_ends_as_its_file_says_however_often_reading_fails",
    ),
    _mutant(
        "never run a job again of which nobody knows what it did",
        _DEATHS,
        "            await self._end_unknown(job, error)\n            return\n",
        "            self._events.requeue(job)\n            return\n",
        "tests/daemon/luxid/files/test_unread_files.py::test_a_dead_job_of_which_nobody_knows_what_it_did_is_never_run_again",
    ),
    _mutant(
        "sync what a dead process has renamed before it is told",
        _DEATHS,
        "        await self._store.files.take_up([job_id], are_dead=True)\n",
        "",
        "tests/daemon/luxid/files/test_unread_files.py::test_what_a_dead_process_has_renamed_is_synced_before_its_end_is_told",
    ),
    _mutant(
        "count no start against a job that is not its fault",
        _STARTING,
        "            await self._attempts.back_off(job, error.message)\n        except GantryError",
        "            await self._attempts.failed(job, error.message)\n        except GantryError",
        "tests/daemon/luxid/processes/test_starter_state.py::test_a_launcher_that_is_away_costs_the_job_nothing",
    ),
    # the queue
    _mutant(
        "write the serial with the jobs that it covers",
        _STORE,
        "        head = [*(attrs.evolve(write, precedes=True) for write in before), serial]\n",
        "        head = [attrs.evolve(write, precedes=True) for write in before]\n",
        "tests/daemon/luxid/submission/test_durable_submissions.py::test_a_single_job_without_a_key_pays_nothing_for_it",
        "tests/daemon/luxid/submission/test_submit_job.py::test_a_job_is_on_disk_when_its_id_is_answered",
    ),
    _mutant(
        "note a batch before the first of its jobs is there",
        _STORE,
        "            before.append(note_of(self.paths, jobs[0].job_id, len(jobs), (write.path for write in first)))\n",
        "            before.append(FileWrite(self.paths.submissions / 'batch', b'[]'))\n",
        "tests/crash/test_batches_cut_off.py::test_killed_at_any_step_leaves_all_of_the_jobs_or_none",
    ),
    _mutant(
        "make a key durable before its jobs",
        _STORE,
        "(attrs.evolve(write, precedes=True) for write in before)",
        "(attrs.evolve(write, precedes=False) for write in before)",
        "tests/daemon/luxid/submission/test_durable_submissions.py::test_a_key_is_durable_before_its_job_is_there",
    ),
    _mutant(
        "give out no id that any file bears",
        _STORE,
        "        self._serial = max(self._serial, at_least)\n",
        "        pass\n",
        "tests/daemon/luxid/processes/test_recovery.py::test_files_set_aside_still_spend_their_ids",
    ),
    _mutant(
        "lock the queue against a second daemon",
        "daemons/luxid/files/queuefolder.py",
        "            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        "tests/daemon/luxid/files/test_queue_lock.py::test_a_queue_that_another_process_has_is_refused_until_that_has_ended",
    ),
    # locks
    _mutant(
        "grant nothing that conflicts with what others hold",
        _TABLE,
        "    if blocked_on:\n        return Verdict(table, blocked_on)\n",
        "",
        "tests/unit/wconfd/test_lock_table.py::test_two_owners_conflict_on_a_lock_or_its_group_if_one_is_exclusive",
    ),
    _mutant(
        "keep a group from those who want a lock of it",
        _TABLE,
        "            if group:\n                yield LockGate(group, False, request.mode)\n",
        "",
        "tests/unit/wconfd/test_lock_table.py::test_two_owners_conflict_on_a_lock_or_its_group_if_one_is_exclusive",
    ),
    _mutant(
        "keep the locks of a group from those who want the group",
        _TABLE,
        "            if lock.is_group:\n                yield LockGate(lock, True, request.mode)\n",
        "",
        "tests/unit/wconfd/test_lock_table.py::test_two_owners_conflict_on_a_lock_or_its_group_if_one_is_exclusive",
    ),
    _mutant(
        "keep to the order of locks",
        _RULES,
        "    for request in requests:\n        _refuse_disorder(holdings, request)\n",
        "",
        "tests/unit/wconfd/test_lock_table.py::test_what_lies_before_a_held_lock_and_is_not_covered_is_an_order_violation",
    ),
    _mutant(
        "refuse an exclusive lock under a group that is shared",
        _RULES,
        "    for request in requests:\n        _refuse_exclusive_under_shared(holdings, request)\n",
        "",
        "tests/unit/wconfd/test_lock_table.py::test_an_exclusive_lock_under_a_shared_group_is_refused_whatever_else_is_asked",
    ),
    _mutant(
        "show no change of locks that is not written",
        "daemons/wconfd/steps.py",
        "                ticket.error = ticket.error or error\n            return self._state\n",
        "                ticket.error = ticket.error or error\n            return after\n",
        "tests/unit/wconfd/test_wconfd_steps.py::test_a_failed_write_changes_nothing_and_concerns_exactly_those_who_wait_for_it",
    ),
    _mutant(
        "sync each line of the journal",
        "daemons/wconfd/locks/lockfiles.py",
        "O_DSYNC",
        "O_CLOEXEC",
        "tests/daemon/wconfd/locks/test_lock_files.py::test_a_line_of_the_journal_is_on_the_disk_when_its_write_returns",
    ),
    _mutant(
        "make durable what lags before the line that names the next locks.data",
        "daemons/wconfd/locks/lockfiles.py",
        "        if self._lagging:\n            self._append(self._lagging.text)\n        if self._lines:\n",
        "        if self._lines:\n",
        "tests/daemon/wconfd/locks/test_lagging_releases.py::test_what_lags_is_durable_before_the_file_is_made_whole",
    ),
    _mutant(
        "outdate the old journal before locks.data is replaced",
        "daemons/wconfd/locks/lockfiles.py",
        "            self._make_outdated(name)\n",
        "",
        "tests/daemon/wconfd/locks/test_lock_files.py::test_whatever_a_failed_replacement_has_left_no_line_follows_it",
        "tests/daemon/wconfd/locks/test_lock_files.py::test_a_crash_while_it_is_made_whole_after_a_crash_while_it_was_made_whole",
    ),
    _mutant(
        "free a dead owner by the event of its death",
        "daemons/wconfd/locks/deaths.py",
        "                    for path in paths:\n                        nursery.start_soon(self._probe, path)\n",
        "",
        "tests/daemon/wconfd/locks/test_deaths.py::test_an_owner_that_only_waited_is_forgotten",
    ),
    _mutant(
        "try again to free a dead owner after an error of the disk",
        "daemons/wconfd/locks/deaths.py",
        "            self._has_unreleased.set()\n",
        "",
        "tests/daemon/wconfd/test_disk_full.py::test_who_died_meanwhile_is_freed_as_soon_as_there_is_room_and_no_sweep_is_needed",
    ),
    # signals and users
    _mutant(
        "signal nobody who only has a job's old number",
        "daemons/luxid/processes/signals.py",
        "    if is_ours or ((is_ours is None or may_be_wrapper) and _was_before(process, job.livelock)):\n",
        "    if True:\n",
        "tests/daemon/luxid/processes/test_kill_job.py::test_a_stranger_that_has_the_number_of_a_dead_job_process_gets_no_signal",
    ),
    _mutant(
        "refuse folders that others can write",
        "common/system/accounts.py",
        "    if status.st_mode & stat.S_IWOTH:\n",
        "    if False:\n",
        "tests/unit/common/system/test_trust.py::test_a_part_that_everybody_can_write_is_refused_by_name",
    ),
    _mutant(
        "refuse folders of other users",
        "common/system/accounts.py",
        "    if status.st_uid not in uids:\n",
        "    if False:\n",
        "tests/unit/common/system/test_trust.py::test_a_folder_of_another_user_is_refused_wherever_it_is_in_the_path",
    ),
    _mutant(
        "hang up where somebody else than the daemon listens",
        "protocol/unixsocket.py",
        "        _check_server(sock, path, daemon)\n",
        "",
        "tests/daemon/system/test_foreign_folders.py::test_a_client_sends_nothing_to_a_socket_of_another_user",
    ),
    _mutant(
        "look at the role of a caller",
        "common/access.py",
        "    if role < needed:\n",
        "    if False:\n",
        "tests/unit/common/test_access.py::test_the_service_refuses_before_it_reads_arguments_or_asks_the_handler",
    ),
    _mutant(
        "run a command as its submitter",
        "daemons/luxid/core/rights.py",
        "attrs.evolve(op, user=_user_of(op, submitter, host, where)) if isinstance(op, OpRunCommand) else op\n",
        "op\n",
        "tests/unit/luxid/test_rights.py::test_a_command_says_as_whom_it_runs_unless_that_is_the_daemons_user",
    ),
    # noded
    _mutant(
        "ask whether a caller is a master candidate",
        _NODE_APPLICATION,
        "        if not may_call:\n",
        "        if False:\n",
        "tests/daemon/noded/test_refusals.py::test_a_node_that_is_no_candidate_may_not_call",
    ),
    _mutant(
        "take names of the queue from a closed list",
        "daemons/noded/files/places.py",
        "not _QUEUE_FILE.fullmatch(str(path.relative_to(queue)))",
        "path == queue",
        "tests/daemon/noded/test_refusals.py::test_names_that_are_not_of_the_queue_are_refused",
    ),
    _mutant(
        "store an epoch before it is used",
        "daemons/noded/epochs.py",
        '            await in_thread(put_file, self._path, f"{epoch}\\n".encode(), _MODE)\n',
        "",
        "tests/daemon/noded/test_epochs.py::test_the_epoch_is_durable_before_the_call",
    ),
    _mutant(
        "let a new master wait for the calls of an old one",
        "daemons/noded/epochs.py",
        "        while epoch == self.highest and any(running < epoch for running in self._running):\n",
        "        while False:\n",
        "tests/daemon/noded/test_epochs.py::test_nothing_of_an_old_master_is_written_after_the_new_one_was_heard",
    ),
    _mutant(
        "end a connection that its peer has closed",
        "protocol/http/connection.py",
        "        self.has_ended = True\n        return False\n",
        "        return await trio.sleep_forever()\n",
        "tests/daemon/noded/test_patience.py::test_a_connection_that_its_peer_closed_gives_its_place_back",
    ),
    # nodes and their roles
    _mutant(
        "let the certificates of candidates go with their roles",
        _NODE_CHANGES,
        "for key, digest in known.items() if holder_of(key) in holders}",
        "for key, digest in known.items()}",
        "tests/unit/wconfd/config/test_config_change_nodes.py::test_a_demoted_node_loses_its_certificate",
        "tests/unit/wconfd/config/test_recorded_node_changes.py::test_our_change_leads_to_the_recorded_configuration",
    ),
    _mutant(
        "keep a candidate whose place another node could take",
        _NODE_CHANGES,
        "    if not change.may_fall_short:\n        _check_pool(config, nodes, size)\n",
        "",
        "tests/unit/wconfd/config/test_config_change_nodes.py::"
        "test_a_candidate_is_not_lost_while_another_node_could_take_its_place",
    ),
    _mutant(
        "read the configuration again when the locks are held",
        "daemons/jobproc/opcodelocks.py",
        "            context.forget_config()\n",
        "",
        "tests/daemon/jobproc/nodes/test_setparams.py::test_what_changed_while_a_job_waited_for_its_locks_counts",
    ),
    # commands on nodes
    _mutant(
        "take a silent node's command for one that may run",
        _CONVERSATION,
        "        return self not in (ConversationEnd.KEPT, ConversationEnd.SILENT, ConversationEnd.OUTDATED)\n",
        "        return self not in (ConversationEnd.KEPT, ConversationEnd.OUTDATED)\n",
        "tests/property/test_node_conversation.py::test_a_proof_is_one_and_the_output_is_whole",
    ),
    _mutant(
        "take a start without a reply for one that may have arrived",
        _CONVERSATION,
        "        return attrs.evolve(self, may_run=True)\n",
        "        return self\n",
        "tests/property/test_node_conversation.py::"
        "test_a_start_that_may_have_arrived_is_repeated_until_the_time_for_lost_nodes_is_over",
    ),
    _mutant(
        "keep the locks before a command is started on a node",
        "daemons/jobproc/nodecommands/nodecommand.py",
        "        self._keep_locks()\n        try:\n",
        "        try:\n",
        "tests/daemon/jobproc/nodecommands/test_take_up.py::"
        "test_a_new_process_goes_on_with_the_output_and_the_locks_of_the_one_that_died",
    ),
    _mutant(
        "free no locks under which a command may run on a node",
        "daemons/jobproc/opcodeends.py",
        "        if self.left.look() or self.locks.may_run:\n",
        "        if self.left.look():\n",
        "tests/daemon/jobproc/nodecommands/test_take_up.py::"
        "test_a_silent_node_is_told_of_and_its_locks_stay_when_its_time_is_over",
    ),
    # live data of nodes
    _mutant(
        "give up a query whose client has gone",
        "daemons/luxid/rpc.py",
        "        Route(Query, to.objects.query, only_waits=True, role=Role.READ),\n",
        "        Route(Query, to.objects.query, role=Role.READ),\n",
        "tests/daemon/luxid/queries/test_live_data.py::test_a_query_of_a_client_that_has_gone_is_given_up",
    ),
    _mutant(
        "bound the turns of queries that wait for one node",
        "daemons/luxid/livedata.py",
        "        async with self._turns_at[node.name], self._turns:\n",
        "        async with self._turns:\n",
        "tests/daemon/luxid/queries/test_live_data.py::"
        "test_many_queries_that_wait_for_one_node_do_not_hold_up_those_of_others",
    ),
    _mutant(
        "take a fault of the master for no verdict about a node",
        "daemons/luxid/core/live.py",
        "    return NoFacts.NOT_ASKED if outcome.kind is FailureKind.UNSENT else NoFacts.FAILED\n",
        "    return NoFacts.FAILED\n",
        "tests/unit/luxid/query/test_query_live.py::test_an_outcome_is_facts_or_the_reason_why_there_are_none",
    ),
    _mutant(
        "leave out no node whose live data could let it pass",
        "common/query/qlang.py",
        "            return Not(_bound(part, is_cheap, negated, dear))\n",
        "            return Not(_bound(part, is_cheap, dear, negated))\n",
        "tests/unit/luxid/query/test_query_live.py::test_nodes_that_the_filter_rules_out_anyway_are_not_asked",
        "tests/property/test_implied.py::test_what_passes_is_not_ruled_out_before_dear_values_are_known",
    ),
    # one master at a time
    _mutant(
        "use no epoch but one's own",
        "common/nodes/mastership.py",
        "return self.number == 0 or self.master == node",
        "return True",
        "tests/unit/common/nodes/test_epochs.py::test_a_node_that_has_seen_the_epoch_of_another_does_not_use_it",
    ),
    _mutant(
        "grant an epoch to one node only",
        "daemons/noded/epochs.py",
        "        if self._seen != claimed:\n",
        "        if self.highest > number:\n",
        "tests/daemon/noded/test_claims.py::test_a_claim_is_granted_to_one_node_also_after_a_crash",
    ),
    _mutant(
        "count the word of a node that has granted a higher epoch",
        "common/nodes/failover.py",
        " and (vote.epoch or 0) <= own_epoch",
        "",
        "tests/unit/protocol/noded/clients/test_voting.py::"
        "test_the_master_is_who_has_most_votes_and_the_others_are_told_its_name",
    ),
    _mutant(
        "acknowledge nothing once a node has another master",
        "daemons/luxid/copying/nodecopies.py",
        "        await self._stops.passed()\n        self.check_mastership()\n",
        "        await self._stops.passed()\n",
        "tests/unit/luxid/copies/test_copies_of_old_masters.py::"
        "test_one_node_with_another_master_outweighs_all_that_are_not_reached",
    ),
    _mutant(
        "stop a deposed master's job processes before killing what they started",
        "common/system/processes.py",
        "        send_all(roots, signal.SIGSTOP)\n",
        "        pass\n",
        "tests/daemon/noded/test_old_master.py::test_an_old_master_that_hears_of_a_newer_one_ends_with_its_jobs",
    ),
    # changes under a condition
    _mutant(
        "replace a filter rule only if it is what the caller has read",
        "daemons/wconfd/core/config/changes.py",
        "    if condition is not None and not (before is not None and _is_of_one_call(before, rule)):\n",
        "    if False:\n",
        "tests/unit/wconfd/config/test_config_change_objects.py::"
        "test_a_rule_changes_only_if_it_is_what_the_condition_says",
        "tests/daemon/rapid/test_conditions_over_http.py::test_of_two_that_read_the_same_one_wins",
    ),
    _mutant(
        "change a schedule only if it is what the caller has read",
        "daemons/luxid/handlers/schedules.py",
        "    check_condition(condition, f\"schedule '{schedule.name}'\", tag)\n    return after\n",
        "    return after\n",
        "tests/unit/luxid/schedules/test_schedule_changes.py::test_a_condition_counts_at_the_turn_of_a_change",
        "tests/daemon/rapid/test_conditions_over_http.py::test_of_two_that_read_the_same_one_wins",
    ),
    _mutant(
        "set a resource only if it is what the caller has read",
        "daemons/wconfd/handlers/keptrows.py",
        "                _check_row(call.condition, resource.key, rows)\n",
        "                pass\n",
        "tests/daemon/rapid/test_conditions_over_http.py::test_of_two_that_read_the_same_one_wins",
    ),
    # node groups and tags
    _mutant(
        "let two groups have one name",
        "daemons/wconfd/core/config/groupchanges.py",
        "    for given in change.groups:\n        _check_name(groups, given)\n",
        "",
        "tests/unit/wconfd/config/test_config_change_groups.py::test_a_name_that_means_another_group_is_refused",
        "tests/daemon/jobproc/test_groups_and_tags.py::"
        "test_of_many_jobs_at_once_each_tag_counts_and_one_group_gets_the_name",
    ),
    _mutant(
        "remove a group that still has nodes",
        "daemons/wconfd/core/config/groupchanges.py",
        "    for uuid in change.removed:\n        _check_group_removal(config, uuid)\n",
        "",
        "tests/unit/wconfd/config/test_config_change_groups.py::test_a_group_with_nodes_stays",
    ),
    _mutant(
        "split instances without being forced",
        "daemons/jobproc/units/groups.py",
        "if self._splits.new and not self.op.force:",
        "if False:",
        "tests/unit/jobproc/test_group_units.py::test_instances_are_split_only_by_force",
    ),
    _mutant(
        "change tags without the lock of their object",
        "daemons/jobproc/units/tags.py",
        "        self.lock_names = {kind.level: [kind.lock_name(found)]}",
        "        self.lock_names = {kind.level: []}",
        "tests/unit/jobproc/test_tag_units.py::test_tags_are_changed_under_the_lock_of_their_object_alone",
    ),
    # jobs that run again, and what the page submits
    _mutant(
        "let a job run again behind a later one that it depends on",
        "common/queue/reruns.py",
        "    ordered = _ordered(jobs)\n",
        "    ordered = sorted(jobs, key=lambda job: job.job_id)\n",
        "tests/unit/common/queue/test_reruns.py::test_a_job_runs_again_behind_a_later_one_that_it_came_to_depend_on",
    ),
    _mutant(
        "bound the dependents that run again",
        "common/queue/reruns.py",
        "        if len(found) - len(given) > MOST_DEPENDENTS:\n",
        "        if False:\n",
        "tests/unit/common/queue/test_reruns.py::test_no_more_dependents_run_again_than_the_bound",
    ),
    _mutant(
        "submit from the page only what it has shown",
        "daemons/rapid/page/submitting.py",
        '        if texts["seen"] != texts.digest(FIELDS):\n',
        "        if False:\n",
        "tests/daemon/rapid/test_acts_page.py::test_what_was_not_looked_at_is_not_submitted",
    ),
    _mutant(
        "keep the job of a schedule whose times are changed",
        "daemons/rapid/page/scheduling.py",
        'None if there is not None and texts["was"] == texts.digest(JOB_FIELDS) else ',
        "",
        "tests/unit/rapid/page/test_schedule_forms.py::test_a_job_that_is_not_told_stays",
    ),
)
