"""When `gantry status` warns: the table `[health]` of the settings.

Source: DESIGN section 16.
"""

import attrs

from common.settingwords.settingchecks import not_negative


@attrs.frozen
class HealthSettings:
    # free part of a disk, in room or in number of files, below which it is told
    disk_warning_percent: float = attrs.field(default=10.0, validator=not_negative)
    disk_critical_percent: float = attrs.field(default=3.0, validator=not_negative)
    # free part of a daemon's descriptors, likewise
    descriptors_warning_percent: float = attrs.field(default=20.0, validator=not_negative)
    descriptors_critical_percent: float = attrs.field(default=5.0, validator=not_negative)
    # time for which a candidate may lack files of the queue
    lag_warning_s: float = attrs.field(default=300.0, validator=not_negative)
