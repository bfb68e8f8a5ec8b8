"""`gnt-job run`: run a command as a job."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from cli import context
from cli.commands import WaitingCommand
from cli.connection import open_luxid
from cli.remoteoptions import is_remote
from cli.screen import remark
from cli.submitting.arguments import ULIMIT, AfterJobs, after_options, lock_modes, read_dependencies
from cli.submitting.batchoptions import BatchOptions, batch_options, check_lock_marks, check_shell_words
from cli.submitting.command import CommandOptions, command_options
from cli.submitting.options import SubmissionOptions, job_options, job_with_options, retry_options
from cli.submitting.submission import submit_jobs
from protocol.luxi.jobs import NewJob, OpInput

# The folder in which a command starts when no `--cwd` is given: the caller's, if the command's user can enter it.
#
# Without a launcher commands of root run as the user of the daemons, who cannot enter /root; a first job should not
# fail for that.


_ELSE: Final = Path("/")


def start_folder(user: str | None) -> Path:
    """The folder, absolute. Args: user: `--user`, as whom the command runs; None: as the daemons decide."""
    here = Path.cwd()
    if os.geteuid() or user is not None:
        return here
    paths = context.paths()
    if paths.launcher_socket.exists():
        # commands of root run as root
        return here
    try:
        owner = paths.data.stat().st_uid
    except OSError:
        # luxid will say what is wrong
        return here
    if owner == 0 or all(_can_enter(owner, folder) for folder in (here, *here.parents)):
        return here
    remark(
        f"the command starts in '{_ELSE}': the user of the daemons cannot enter '{here}'; --cwd names another folder"
    )
    return _ELSE


def _can_enter(uid: int, folder: Path) -> bool:
    """Whether the mode lets the user in, not by a group."""
    found = folder.stat()
    return bool(found.st_mode & (stat.S_IXUSR if found.st_uid == uid else stat.S_IXOTH))


@click.command(
    "run",
    cls=WaitingCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "gnt-job run --lock node/web1 -- apt-get --yes upgrade",
        "gnt-job run --lock node/web1:shared --lock node/db1 --wait -- rsync -a web1: db1:",
        "gnt-job run --detach -- /etc/init.d/web restart",
        "gnt-job run --after 12 --shell -- 'make test && make deploy'",
        "gnt-job run --after 13:error,canceled -- logger 'the deployment went wrong'",
        "gnt-job run --reason rate-limit:2:backup -- backup web1",
        "gnt-job run --memory 2G --cpus 1.5 --nice 10 -- make -j4",
        "gnt-job run --stdin /srv/dump.sql --stderr apart --wait -- mysql web",
        "gnt-job run --node web1 --node web2 --wait -- uptime",
        "gnt-job run --node-group web --at-most 2 --stop-on-failure --wait -- apt-get --yes upgrade",
        "gnt-job run --each-node --lock 'node/{node}' -- reboot-if-needed",
        "gnt-job run --each host=web1,web2,web3 --at-most 2 --name 'backup-{host}' -- ssh {host} backup",
        "gnt-job run --each file=@list.txt --each size=small,large -- convert --size {size} {file}",
        "gnt-job run --name backup --label team=web --retries 3 --retry-delay 30s --retry-on exit=75,timeout -- backup",
        "gnt-job run --begin 'tomorrow 02:00' --use licences=2 --key nightly-2026-11-21 -- report",
        "gnt-job run --after-failure PREV -- logger 'the last one failed'",
    ),
)
@command_options("this one if left out, / with --remote or on a node")
@click.option(
    "--stderr",
    type=click.Choice(["joined", "apart"]),
    help="Standard error with the output (default), or kept by itself: gnt-job output --stderr.",
)
@click.option("--nice", type=click.IntRange(-20, 19), help="Niceness, 19 is the lowest priority; below 0 only as root.")
@click.option(
    "--ulimit", "ulimits", type=ULIMIT, multiple=True, help="A limit, NAME=SOFT[:HARD], nofile=4096; repeatable."
)
@click.option(
    "--exit-code",
    "exit_codes",
    type=click.IntRange(0, 255),
    multiple=True,
    help="Success is this exit code, not 0; repeatable.",
)
@click.option("--detach", is_flag=True, help="Let background processes run on; else they end with the command.")
@click.option("--keep-locks", is_flag=True, help="As --detach, and keep the locks until the last of them has ended.")
@batch_options
@after_options
@retry_options
@job_options
@click.argument("words", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(
    words: Sequence[str],
    command: CommandOptions,
    stderr: str | None,
    nice: int | None,
    ulimits: Sequence[tuple[str, list[int]]],
    exit_codes: Sequence[int],
    detach: bool,
    keep_locks: bool,
    batch: BatchOptions,
    after: AfterJobs,
    retry: dict[str, object],
    submission: SubmissionOptions,
) -> int:
    """Run COMMAND as a job, under locks and after other jobs; print the job's id.

    Its surroundings do not depend on who started the daemons: PATH and LANG of the settings, HOME, USER, LOGNAME
    and SHELL of its user, and what --env adds; umask 022, at most 1024 open files, no other limits, niceness 0; this
    folder or --cwd; nothing on standard input. Its variables GANTRY_JOB_ID and GANTRY_OPCODE_INDEX (from 0) tell which
    command it is, GANTRY_TRY (from 1) which try if there may be several, GANTRY_USES the units that it has, as
    "licences=2 web1:memory=4294967296". A TRACEPARENT in the environment of 'gnt-job' stays with the job, and is in its
    command's, too.

    On nodes each has a job of its own, all in one submission; the id of each is printed. In the name of a lock
    {node} stands for the job's node, and so does the variable GANTRY_NODE in the command. Users, folders and programs
    are those of the node.

    With --each host=web1,web2 each value has a job of its own, too, at most 10,000 in one submission: {host} is its
    value, as it is, in one word; {{host}} is {host}. So are the variables GANTRY_EACH_host, GANTRY_EACH_INDEX (from 1)
    and GANTRY_EACH_COUNT. Each job has the label host=web1, and a name that ends with its values.

    With --wait the exit code is the command's; 'gantry help exit-codes' tells all others.
    """
    check_lock_marks(lock_modes(command.locks), batch)
    if command.shell:
        check_shell_words(words, batch)
    elif submission.is_held:
        _check_program(words[0])
    elsewhere = "the node" if batch.has_nodes else "the other machine" if is_remote() else None
    op: dict[str, object] = {
        **command.parameters(words, elsewhere),
        "nice": nice,
        "ulimits": dict(ulimits) or None,
        "stderr_apart": True if stderr == "apart" else None,
        "exit_codes": list(exit_codes) or [0],
        "detach": detach or None,
        "keep_locks": keep_locks or None,
        "depends": read_dependencies(after, submission.key) or None,
        **retry,
    }
    if elsewhere is None and command.cwd is None:
        op["cwd"] = str(start_folder(command.user))
    return _submit({key: value for key, value in op.items() if value is not None}, batch, submission)


def _submit(op: OpInput, batch: BatchOptions, options: SubmissionOptions) -> int:
    if not (batch.has_nodes or batch.is_batch):
        return submit_jobs([job_with_options(NewJob((op,)), options, "run")], options)
    # imported late: most commands are one job
    from cli.submitting.batch import spread

    if batch.variables:
        _tell_strange_marks(op, batch, options)
    found = spread(op, _choose_nodes(batch), batch, options, "run")
    return submit_jobs(found.jobs, options, elements=found.elements, batch_id=found.batch_id)


def _tell_strange_marks(op: OpInput, batch: BatchOptions, options: SubmissionOptions) -> None:
    """Tell of words in braces that may be mistyped: they stay as they are."""
    from cli.submitting.batchoptions import strange_marks

    names = [*(each.name for each in batch.variables), *(["node"] if batch.has_nodes else [])]
    argv = op["argv"]
    texts = [*argv] if isinstance(argv, list) else []
    texts += [options.job_name or "", *(value for _, value in options.job_labels)]
    for word, nearest in strange_marks(names, texts):
        remark(f"'{{{word}}}' stays as it is; did you mean '{{{nearest}}}'?")


def _choose_nodes(batch: BatchOptions) -> Sequence[str]:
    if not batch.has_nodes:
        return ()
    from cli.submitting.batch import choose_nodes

    with open_luxid() as client:
        chosen = choose_nodes(client, batch)
    for name, why in chosen.left_out:
        remark(f"left out: {name} ({why})")
    return chosen.names


def _check_program(word: str) -> None:
    """Raises: click.UsageError: the word is a reason for --hold, which takes none, rather than a program."""
    if " " in word and "/" not in word:
        raise click.UsageError(
            f"--hold takes no text, so '{word:.60}' would be the command; a text for --hold is that of --reason, "
            "and the command stands after --"
        )
