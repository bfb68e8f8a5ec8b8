"""Batches as the user names them: by their id, or by PREV, the last submission of this session.

Source: DESIGN section 16.
"""

import re
from collections.abc import Sequence
from typing import Final

import click

from cli.choosing.filtercompletion import complete_batch
from cli.choosing.jobids import PREVIOUS, ids_of
from cli.connection import open_luxid
from cli.options import F

_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


class BatchType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The id of a batch, or PREV."""

    name = "batch"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _ID.fullmatch(value) is None:
            self.fail(f"'{value:.40}' is no batch; 'gnt-job batch list' shows all", param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "ID|PREV"


BATCH: Final = BatchType()


def batch_option(function: F) -> F:
    """`--batch`, beside ids and conditions."""
    return click.option(
        "--batch",
        "batches",
        type=BATCH,
        multiple=True,
        shell_complete=complete_batch,
        help="The jobs of this batch; PREV is the last submission.",
    )(function)


def batch_ids(name: str) -> Sequence[int]:
    """The jobs of a batch, archived ones too, by id.

    Raises: PrerequisiteError: there is no such batch. Else as `Luxid.call`.
    """
    if name == PREVIOUS:
        return ids_of(name)
    from cli.fleet.batchrows import read_batch

    with open_luxid() as client:
        return [row["id"] for row in read_batch(client, name).jobs]
