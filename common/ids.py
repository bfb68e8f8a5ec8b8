"""The ids that all parts share."""

from typing import NewType

# The id of a job: counted from 1, never used twice
JobId = NewType("JobId", int)
