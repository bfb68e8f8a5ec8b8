"""`gnt-job output`: print the output of jobs' commands."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE, INTERRUPTED
from cli.live.events import Output
from cli.live.follow import job_output
from cli.live.followers import follow_output
from cli.live.outputscreen import OutputScreen, raw_option
from cli.query import JOB_ID
from cli.screen import remark, say_json
from protocol.luxi.output import OutputStream


@click.command(
    "output",
    cls=Command,
    examples=("gnt-job output 27491 | less", "gnt-job output --follow 27491", "gnt-job output --follow 27491 27492"),
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on until the jobs have ended.")
@click.option("--stderr", "is_error", is_flag=True, help="Print standard error, where the command keeps it apart.")
@raw_option
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True, type=JOB_ID)
def output(job_ids: Sequence[int], is_following: bool, is_error: bool, is_raw: bool) -> int:
    """Print the output of the jobs' commands so far; of a long output only the end is kept.

    Of several jobs each line begins with the job's id.
    """
    job_ids = list(dict.fromkeys(job_ids))
    try:
        pieces = _pieces(job_ids, OutputStream.ERROR if is_error else OutputStream.OUTPUT, is_following)
        if wants_json():
            _print_json(job_ids, pieces)
        else:
            _print(job_ids, pieces, OutputScreen(is_raw=is_raw))
    except KeyboardInterrupt:
        goes_on = f"job {job_ids[0]} goes on" if len(job_ids) == 1 else "the jobs go on"
        remark(f"\n{goes_on}; watch with: {command_line(program(), 'watch', *job_ids)}")
        return INTERRUPTED
    return DONE


def _pieces(job_ids: Sequence[int], stream: OutputStream, is_following: bool) -> Iterator[Output]:
    if is_following:
        with closing(follow_output(job_ids, stream)) as followers:
            yield from (event for event in followers if isinstance(event, Output))
        return
    with open_luxid() as client:
        for job_id in job_ids:
            yield from job_output(client, job_id, stream, is_following=False)


def _print(job_ids: Sequence[int], pieces: Iterator[Output], screen: OutputScreen) -> None:
    if len(job_ids) == 1:
        for piece in pieces:
            screen.write(piece.text)
        return
    width = max(len(str(job_id)) for job_id in job_ids)
    # the begun line of each job
    begun = dict.fromkeys(job_ids, "")
    for piece in pieces:
        *lines, begun[piece.job_id] = (begun[piece.job_id] + piece.text).split("\n")
        screen.write("".join(f"{piece.job_id:>{width}}  {line}\n" for line in lines))
    screen.write("".join(f"{job_id:>{width}}  {line}\n" for job_id, line in begun.items() if line))


def _print_json(job_ids: Sequence[int], pieces: Iterator[Output]) -> None:
    texts: dict[int, list[str]] = {job_id: [] for job_id in job_ids}
    for piece in pieces:
        texts[piece.job_id].append(piece.text)
    if len(job_ids) == 1:
        say_json("".join(texts[job_ids[0]]))
    else:
        say_json([{"id": job_id, "output": "".join(text)} for job_id, text in texts.items()])
