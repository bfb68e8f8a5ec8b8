"""`gnt-job output`: print the output of a job's commands."""

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE, INTERRUPTED
from cli.live.follow import job_output
from cli.live.outputscreen import OutputScreen, raw_option
from cli.query import JOB_ID
from cli.screen import remark, say_json
from protocol.luxi.output import OutputStream


@click.command("output", cls=Command, examples=("gnt-job output 27491 | less", "gnt-job output --follow 27491"))
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on until the job has ended.")
@click.option("--stderr", "is_error", is_flag=True, help="Print standard error, where the command keeps it apart.")
@raw_option
@click.argument("job_id", metavar="ID", type=JOB_ID)
def output(job_id: int, is_following: bool, is_error: bool, is_raw: bool) -> int:
    """Print the output of the job's commands so far; of a long output only the end is kept."""
    try:
        with open_luxid() as client:
            stream = OutputStream.ERROR if is_error else OutputStream.OUTPUT
            pieces = job_output(client, job_id, stream, is_following=is_following)
            if wants_json():
                say_json("".join(piece.text for piece in pieces))
            else:
                screen = OutputScreen(is_raw=is_raw)
                for piece in pieces:
                    screen.write(piece.text)
    except KeyboardInterrupt:
        remark(f"\njob {job_id} goes on; watch with: {command_line(program(), 'watch', job_id)}")
        return INTERRUPTED
    return DONE
