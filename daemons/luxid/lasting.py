"""Objects that are made in masses and stay, such as the jobs of a large submission.

Theory. The garbage collector examines all objects made since its last run, and sometimes all objects: a
tenth of a second at once, in vain, as jobs are not in cycles. So it does not run while they are made, and afterwards
ignores them. Each is still freed when its last reference goes.

Source: DESIGN section 6.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Within this context the collector does not run, and later it ignores objects made within it."""
    gc.disable()
    try:
        yield
    finally:
        # first: otherwise the next object would start a run over all that has accumulated
        gc.freeze()
        gc.enable()
