"""`gnt-job run`: run a command as a job."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import click

from cli.choosing.commandargs import CPUS, SIZE, ULIMIT, VARIABLE, check_text, read_standard_input
from cli.choosing.lockargs import LOCK, LockWish, lock_modes
from cli.commands import WaitingCommand
from cli.connection import open_luxid
from cli.durations import POSITIVE_DURATION
from cli.fleet.fleetoptions import (
    FleetOptions,
    FleetWish,
    check_lock_marks,
    check_shell_words,
    fleet_options,
    read_fleet_wish,
)
from cli.remote.remoteoptions import is_remote
from cli.screen import remark
from cli.submission import submit_jobs
from cli.submitting.afterargs import AfterOptions, after_options, read_dependencies
from cli.submitting.startfolder import start_folder
from cli.submitting.submitoptions import (
    FollowOptions,
    RetryOptions,
    exit_option,
    job_options,
    later_options,
    retry_options,
    retry_parameters,
    wait_options,
    wishes_of,
)
from cli.submitting.wishes import Wishes, job_with_wishes
from protocol.luxi.submission import OpInput


class RunOptions(FleetOptions, AfterOptions, RetryOptions, FollowOptions):
    """What the groups of options pass to the verb."""


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
@click.option("--lock", "locks", type=LOCK, multiple=True, help="Hold this lock, NAME[:shared|exclusive]; repeatable.")
@fleet_options
@after_options
@click.option("--timeout", type=POSITIVE_DURATION, help="End the command after this time: 90, 90s, 5m, 2h.")
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run it there; here if left out, with --remote or on a node in /.",
)
@click.option(
    "--stdin",
    "stdin_from",
    metavar="FILE|-",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Input of the command: FILE as it is when the command starts, or (-) all of standard input here.",
)
@click.option("--stdin-text", metavar="TEXT", help="Input of the command: this text.")
@click.option(
    "--stderr",
    type=click.Choice(["joined", "apart"]),
    help="Standard error with the output (default), or kept by itself: gnt-job output --stderr.",
)
@click.option("--memory", type=SIZE, help="Memory limit of all its processes together: 512M, 2G.")
@click.option("--cpus", type=CPUS, help="Limit of processors at once: 2, 0.5.")
@click.option("--nice", type=click.IntRange(-20, 19), help="Niceness, 19 is the lowest priority; below 0 only as root.")
@click.option(
    "--ulimit", "ulimits", type=ULIMIT, multiple=True, help="A limit, NAME=SOFT[:HARD], nofile=4096; repeatable."
)
@click.option("--env", type=VARIABLE, multiple=True, help="Set a variable, NAME=VALUE; repeatable.")
@click.option("--shell", is_flag=True, help="Join the words by blanks and give them to /bin/sh.")
@click.option("--user", metavar="NAME", help="Run it as this user; needs a launcher, or daemons of root.")
@click.option(
    "--exit-code",
    "exit_codes",
    type=click.IntRange(0, 255),
    multiple=True,
    help="Success is this exit code, not 0; repeatable.",
)
@click.option("--detach", is_flag=True, help="Let background processes run on; else they end with the command.")
@click.option("--keep-locks", is_flag=True, help="As --detach, and keep the locks until the last of them has ended.")
@retry_options
@later_options
@job_options
@wait_options
@exit_option
@click.argument("words", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(
    words: Sequence[str],
    locks: Sequence[LockWish],
    timeout: float | None,
    cwd: Path | None,
    stdin_from: Path | None,
    stdin_text: str | None,
    stderr: str | None,
    memory: int | None,
    cpus: float | None,
    nice: int | None,
    ulimits: Sequence[tuple[str, list[int]]],
    env: Sequence[tuple[str, str]],
    shell: bool,
    user: str | None,
    exit_codes: Sequence[int],
    detach: bool,
    keep_locks: bool,
    **options: Unpack[RunOptions],
) -> int:
    """Run COMMAND as a job, under locks and after other jobs; print the job's id.

    Its surroundings do not depend on who started the daemons: PATH and LANG of the settings, HOME, USER, LOGNAME
    and SHELL of its user, and what --env adds; umask 022, at most 1024 open files, no other limits, niceness 0; this
    folder or --cwd; nothing on standard input. Its variables GANTRY_JOB_ID and GANTRY_OPCODE_INDEX (from 0) tell which
    command it is, GANTRY_TRY (from 1) which try if there may be several, GANTRY_USES the units that it has, as
    "licences=2 web1:memory=4294967296".

    On nodes each has a job of its own, all in one submission; the id of each is printed. In the name of a lock
    {node} stands for the job's node, and so does the variable GANTRY_NODE in the command. Users, folders and programs
    are those of the node.

    With --each host=web1,web2 each value has a job of its own, too, at most 10,000 in one submission: {host} is its
    value, as it is, in one word; {{host}} is {host}. So are the variables GANTRY_EACH_host, GANTRY_EACH_INDEX (from 1)
    and GANTRY_EACH_COUNT. Each job has the label host=web1, and a name that ends with its values.

    With --wait the exit code is the command's; 'gantry help exit-codes' tells all others.
    """
    fleet = read_fleet_wish(options)
    wanted = lock_modes(locks)
    check_lock_marks(wanted, fleet)
    if shell:
        check_shell_words(words, fleet)
    elif options["is_held"]:
        _check_program(words[0])
    if stdin_from is not None and stdin_text is not None:
        raise click.UsageError("--stdin and --stdin-text exclude each other; give one of them")
    if str(stdin_from) == "-":
        stdin_from, stdin_text = None, read_standard_input()
    check_text(*words, *(text for variable in env for text in variable), str(cwd), str(stdin_from))
    if user == "":
        raise click.UsageError("--user '' names nobody; leave it out, or write the name of a user")
    wishes = wishes_of(options)
    op: dict[str, object] = {
        "OP_ID": "OP_RUN_COMMAND",
        "argv": list(words),
        "cwd": _place(cwd, "--cwd", fleet) if _is_elsewhere(fleet) else os.path.abspath(cwd or start_folder(user)),
        "shell": shell,
        "env": dict(env),
        "locks": wanted,
        "timeout": timeout,
        "user": user,
        "stdin_path": _place(stdin_from, "--stdin", fleet),
        "stdin_text": stdin_text,
        "memory": memory,
        "cpus": cpus,
        "nice": nice,
        "ulimits": dict(ulimits) or None,
        "stderr_apart": True if stderr == "apart" else None,
        "exit_codes": list(exit_codes) or [0],
        "detach": detach or None,
        "keep_locks": keep_locks or None,
        "depends": read_dependencies(options, wishes.key) or None,
        **retry_parameters(options),
    }
    return _submit({key: value for key, value in op.items() if value is not None}, fleet, wishes)


def _submit(op: OpInput, fleet: FleetWish, wishes: Wishes) -> int:
    if not (fleet.has_nodes or fleet.is_batch):
        return submit_jobs([job_with_wishes([op], wishes, "run")], wishes)
    # imported late: most commands are one job
    from cli.fleet.batching import spread

    if fleet.variables:
        _tell_strange_marks(op, fleet, wishes)
    found = spread(op, _choose_nodes(fleet), fleet, wishes, "run")
    return submit_jobs(found.jobs, wishes, elements=found.elements, batch_id=found.batch_id)


def _tell_strange_marks(op: OpInput, fleet: FleetWish, wishes: Wishes) -> None:
    """Tell of words in braces that may be mistyped: they stay as they are."""
    from cli.fleet.eachvalues import strange_marks

    names = [*(each.name for each in fleet.variables), *(["node"] if fleet.has_nodes else [])]
    argv = op["argv"]
    texts = [*argv] if isinstance(argv, list) else []
    texts += [wishes.job_name or "", *(value for _, value in wishes.job_labels)]
    for word, nearest in strange_marks(names, texts):
        remark(f"'{{{word}}}' stays as it is; did you mean '{{{nearest}}}'?")


def _choose_nodes(fleet: FleetWish) -> Sequence[str]:
    if not fleet.has_nodes:
        return ()
    from cli.fleet.nodechoice import choose_nodes

    with open_luxid() as client:
        chosen = choose_nodes(client, fleet)
    for name, why in chosen.left_out:
        remark(f"left out: {name} ({why})")
    return chosen.names


def _is_elsewhere(fleet: FleetWish) -> bool:
    """Whether the command does not run on this machine, or not only."""
    return is_remote() or fleet.has_nodes


def _place(path: Path | None, option: str, fleet: FleetWish) -> str | None:
    """The path for the opcode, which has none that depend on the current folder.

    Raises: click.UsageError: the folder is one of this machine, and the job runs on another.
    """
    if path is None:
        return None
    if _is_elsewhere(fleet) and not path.is_absolute():
        where = "the node" if fleet.has_nodes else "the other machine"
        raise click.UsageError(f"{option} '{path}' is on {where}; write a path that begins with /")
    return os.path.abspath(path)


def _check_program(word: str) -> None:
    """Raises: click.UsageError: the word is a reason for --hold, which takes none, rather than a program."""
    if " " in word and "/" not in word:
        raise click.UsageError(
            f"--hold takes no text, so '{word:.60}' would be the command; a text for --hold is that of --reason, "
            "and the command stands after --"
        )
