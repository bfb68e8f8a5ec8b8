"""The JSON Schema of a plan, for editors.

Source: DESIGN section 16; json-schema.org, draft 2020-12.
"""

from collections.abc import Mapping

from cli.plans.planfields import AFTER_SCHEMA, COMMAND, OPCODES, PRIORITY, REASON, RUN, SHELL, TERMS, PlanField


def plan_schema() -> dict[str, object]:
    """The schema of a plan with `jobs`."""
    shared = {**TERMS, "priority": PRIORITY, "reason": REASON, **COMMAND}
    work = {"run": RUN, "shell": SHELL, "ops": OPCODES}
    after = {**AFTER_SCHEMA, "description": "Jobs above, by their names, or others by their ids; with how they end."}
    job = {
        "type": "object",
        "properties": {**_properties({**shared, **work}), "after": after},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "oneOf": [{"required": [key]} for key in work],
    }
    defaults = _properties({key: field for key, field in shared.items() if key != "name"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobs to submit with gnt-job submit",
        "type": "object",
        "required": ["jobs"],
        "properties": {
            "jobs": {"type": "array", "minItems": 1, "items": job},
            "defaults": {
                "type": "object",
                "properties": defaults,
                "patternProperties": {"^x-": {}},
                "additionalProperties": False,
            },
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }


def _properties(fields: Mapping[str, PlanField]) -> dict[str, object]:
    return {key: {**field.schema, "description": field.help} for key, field in fields.items()}
