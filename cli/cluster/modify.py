"""`gnt-cluster modify`: change the parameters of the cluster.

Source: cli.md 5; opcodes.md 4, CLUSTER_SET_PARAMS.
"""

from typing import cast

import click

from cli.cluster.modifying.parameters import LIMITS, op_values, parameter_options
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say_json
from cli.submitting.submitoptions import SubmitOptions, submit_options
from protocol.luxi.queue import SetJobLimits


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-cluster modify --max-running-jobs 20",
        "gnt-cluster modify --candidate-pool-size 5",
        "gnt-cluster modify -B vcpus=2,maxmem=2g --ipolicy-vcpu-ratio 4",
        "gnt-cluster modify --enabled-hypervisors kvm,fake -H kvm:acpi=false",
        "gnt-cluster modify --uid-pool 5000-5009 --hidden-os +etch",
    ),
)
@parameter_options
@click.option("-f", "--force", is_flag=True, help="Accepted as by Ganeti's command; it changes nothing.")
@submit_options
def modify(force: bool, **given: object) -> int:
    """Change parameters of the cluster; what is left out stays.

    Limits of jobs alone are in force at once; all else is changed by a job, which checks everything first. What only
    nodes know, as volume groups, is stored as it is given. Waits for the job, except with --submit.
    """
    options = cast(SubmitOptions, {name: given.pop(name) for name in SubmitOptions.__annotations__})
    values = op_values(given)
    if not values:
        raise click.UsageError("nothing to change; name a limit, as in: gnt-cluster modify --max-running-jobs 20")
    if values.keys() <= set(LIMITS) and not any(options.values()):
        ask_luxid(SetJobLimits(*(cast(int | None, given[name]) for name in LIMITS)))
        code = DONE
    else:
        op = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "force": force, **values}
        code = carry_out(op, options, "gnt-cluster", "modify")
    if code == DONE and wants_json() and (options["is_waiting"] or not options["is_ganeti_form"]):
        say_json({**dict.fromkeys(LIMITS), **values})
    return code
