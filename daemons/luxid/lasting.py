"""Objects that are made in masses and stay, such as the jobs of a large submission.

Theory. The collector of garbage walks all that has been made since it last did, and now and then all there is: a
tenth of a second in one go, for nothing, as jobs are in no cycles. So it does not run while they are made, and is told
afterwards that they stay. Each is freed as ever when nobody refers to it.

Source: DESIGN section 6.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Let the collector neither run meanwhile nor walk later what is made meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        # first: with what has gathered, the next object would make it run
        gc.freeze()
        gc.enable()
