"""The files of ours that hold rows: which there are, and what is in them.

Source: DESIGN section 16.
"""

from collections.abc import Mapping
from typing import Final

from common.resources import Resource
from common.schedules.schedule import Schedule
from daemons.wconfd.core.keptrows import Form

SCHEDULES: Final = Form("schedules", Schedule, lambda schedule: schedule.uuid)
RESOURCES: Final = Form("resources", Resource, lambda resource: resource.key)
AnyForm = Form[Schedule] | Form[Resource]
# by the names of their files
FORMS: Final[Mapping[str, AnyForm]] = {"schedules.data": SCHEDULES, "resources.data": RESOURCES}
