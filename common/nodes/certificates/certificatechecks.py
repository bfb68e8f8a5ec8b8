"""Whether certificates are good, and for how long. Pure.

Source: noded.md 3 and 6.
"""

import datetime
from typing import Final

from common.nodes.certificates.nodecertificates import Certificate

# time before its end from which a certificate is complained about
SOON: Final = datetime.timedelta(days=30)


def fault_of(certificate: Certificate, now: datetime.datetime) -> str | None:
    """What is wrong with the dates of a certificate; None: nothing. Args: now: an aware time."""
    if not certificate.is_valid_at(now):
        return f"is valid from {_day(certificate.not_before)} to {_day(certificate.not_after)}, not now"
    if certificate.not_after - now < SOON:
        return f"expires at {_day(certificate.not_after)}"
    return None


def _day(instant: datetime.datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M UTC")
