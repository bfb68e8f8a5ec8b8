"""Rows of jobs, as luxid tells them."""

from typing import Any, cast

from cli.traces.spans import FIELDS, TracedCluster
from common.words.fields import JobRow

CLUSTER = TracedCluster("4f5de7f4-8147-4e5b-ab40-e9fa8c3750a2", "alpha")


def row(**values: Any) -> JobRow:
    """A job of two opcodes that succeeded."""
    found = {
        "id": 7,
        "status": "success",
        "summary": ["RUN_COMMAND(true)", "TEST_DUMMY"],
        "ops": [{"OP_ID": "OP_RUN_COMMAND"}, {"OP_ID": "OP_TEST_DUMMY"}],
        "opid": ["OP_RUN_COMMAND", "OP_TEST_DUMMY"],
        "opstatus": ["success", "success"],
        "opresult": [{"exit_code": 0}, None],
        "opstart": [[110, 0], [130, 0]],
        "opexec": [[120, 0], [130, 500_000]],
        "opend": [[125, 0], [131, 0]],
        "received_ts": [100, 0],
        "start_ts": [110, 0],
        "end_ts": [131, 0],
        **{"name": "", "user": "ada", "node": "", "batch": "", "priority": 0, "labels": {}, "exit_code": None},
        "traceparent": "",
        **values,
    }
    assert set(found) == set(FIELDS)
    return cast(JobRow, found)
