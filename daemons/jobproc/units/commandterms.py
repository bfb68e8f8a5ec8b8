"""What an opcode runs, as a spec.

Source: DESIGN sections 7, 13 and 16.
"""

from collections.abc import Mapping

from common.commands.spec import CommandSpec, Leave
from common.opcodes.command import OpRunCommand
from daemons.jobproc.context import UnitContext


def command_spec(op: OpRunCommand, context: UnitContext) -> CommandSpec:
    """What the opcode runs."""
    return CommandSpec(
        argv=op.argv,
        shell=op.shell,
        env={**op.env, **_job_env(op, context)},
        cwd=op.cwd or "/",
        user=op.user,
        submitter=None if op.user is None else context.owner_login,
        stdin_text=op.stdin_text,
        stdin_path=op.stdin_path,
        stderr_apart=bool(op.stderr_apart),
        timeout=op.timeout,
        memory=op.memory,
        cpus=op.cpus,
        nice=op.nice,
        ulimits=op.ulimits or {},
        leave=Leave.KEEP_LOCKS if op.keep_locks else Leave.DETACH if op.detach else Leave.END,
        grace_s=context.settings.luxid.kill_grace_s,
    )


def _job_env(op: OpRunCommand, context: UnitContext) -> Mapping[str, str]:
    node = {"GANTRY_NODE": op.node} if op.node is not None else {}
    tried = {"GANTRY_TRY": str(context.try_number)} if op.retries or op.rerunnable else {}
    uses = " ".join(f"{use.key}={use.count}" for use in context.units_used)
    of_job = {**tried, "GANTRY_USES": uses} if uses else tried
    return {"GANTRY_JOB_ID": str(context.job_id), "GANTRY_OPCODE_INDEX": str(context.op_index), **node, **of_job}
