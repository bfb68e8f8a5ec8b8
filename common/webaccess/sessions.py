"""Sessions of the web page, as wconfd keeps them beside the configuration.

Theory. What is kept opens no session: of the id, which the visitor's browser alone has, and of what changes with the
user's password only digests are here. The id has 256 random bits, so a plain digest is enough. Times are those of the
day, as the next rapid may run on another machine.

Source: DESIGN section 15.
"""

import hashlib

import attrs


@attrs.frozen
class KeptSession:
    # digest of the id
    key: str
    user: str
    # digest of the id, and of what the user's password was when the session began
    proof: str
    # seconds since the epoch
    opened_at: float
    # the same; at most a while before the last use
    used_at: float


def key_of(session_id: str) -> str:
    """By what a session is known to those who must not open it: SHA-256, in hexadecimal."""
    return _digest(session_id)


def proof_of(session_id: str, stamp: str) -> str:
    """Whose session it is. Args: stamp: what changes with the password, as `Principal` has it."""
    return _digest(f"{session_id}:{stamp}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
