"""Adding, replacing and deleting filter rules. Pure; results as in `core.instances`.

Source: filters design; wconfd.md 7.3.
"""

from common.objects.config import Config
from common.objects.filter import FilterRule
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import with_entry, without_entry


def replace_filter(config: Config, rule: FilterRule, now: float) -> Config:
    """With this rule under its uuid, whether there was one or not."""
    return advanced(config, with_entry(config, "filters", rule.uuid, rule), now)


def delete_filter(config: Config, uuid: str, now: float) -> Config:
    """Without the rule of this uuid; nothing if there is none."""
    if uuid not in config.filters:
        return config
    return advanced(config, without_entry(config, "filters", uuid), now)
