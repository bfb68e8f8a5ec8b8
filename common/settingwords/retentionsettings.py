"""How long ended jobs are kept: the table `[retention]` of the settings.

Source: DESIGN section 16; everyday.md sections g, j.
"""

import attrs

from common.settingwords.settingchecks import not_negative, positive


@attrs.frozen
class RetentionSettings:
    """Nothing is removed unless it is enabled: a cluster that is upgraded, with Ganeti's files, keeps all of them."""

    # whether luxid archives and removes by itself; false: `gantry prune` does by hand, by the same rules
    enabled: bool = False
    # age from which ended jobs are archived, as Ganeti's watcher does; 0: never
    archive_after_s: float = attrs.field(default=6 * 3600.0, validator=not_negative)
    # age of archived jobs that are removed, and of those that failed; 0: at no age
    keep_days: float = attrs.field(default=90.0, validator=not_negative)
    keep_failed_days: float = attrs.field(default=180.0, validator=not_negative)
    # number of ended jobs of which the oldest are removed at any age; 0: any number is kept
    keep_jobs: int = attrs.field(default=100_000, validator=not_negative)
    # number of latest jobs of each name that are kept in any case
    keep_per_name: int = attrs.field(default=20, validator=not_negative)
    # age of the outputs that are removed; 0: with their jobs
    keep_output_days: float = attrs.field(default=30.0, validator=not_negative)
    # age of the rows of removed jobs in the history; 0: for ever
    keep_history_days: float = attrs.field(default=400.0, validator=not_negative)
    interval_s: float = attrs.field(default=3600.0, validator=positive)
