"""The fields of filter rules.

Source: luxid.md 7.5.
"""

from typing import Final

from common.objects.filter import FilterRule
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.fields import Kind, QueryField

_Field = QueryField[FilterRule]

RULES: Final[Things[FilterRule]] = Things.of(
    "filter rule",
    (
        _Field(
            "watermark",
            "Watermark",
            Kind.OTHER,
            "last job id used when the rule was added",
            lambda rule: rule.watermark,
        ),
        _Field(
            "priority", "Priority", Kind.OTHER, "place in the chain, smaller comes first", lambda rule: rule.priority
        ),
        _Field(
            "predicates", "Predicates", Kind.OTHER, "conditions, all of which must hold", lambda rule: rule.predicates
        ),
        _Field("action", "Action", Kind.OTHER, "what becomes of a job that it matches", lambda rule: rule.action),
        _Field(
            "reason_trail",
            "ReasonTrail",
            Kind.OTHER,
            "who added the rule, and why",
            lambda rule: [entry.to_wire() for entry in rule.reason_trail],
        ),
        _Field("uuid", "UUID", Kind.OTHER, "UUID of the rule", lambda rule: rule.uuid),
    ),
    name_field="uuid",
)
