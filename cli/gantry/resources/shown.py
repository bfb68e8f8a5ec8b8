"""Resources as tables and JSON show them.

Source: DESIGN section 16.
"""

from protocol.luxi.resources import ResourceUse


def use_json(use: ResourceUse) -> dict[str, object]:
    """Counts in single units, or in bytes."""
    resource = use.resource
    return {
        "name": resource.key,
        "node": resource.node or None,
        "unit": resource.unit.value,
        "total": resource.total,
        "used": use.used,
        "free": resource.total - use.used,
        "waiting": use.waiting,
        "users": [{"job": job_id, "count": count} for job_id, count in use.users],
    }
