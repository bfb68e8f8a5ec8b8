"""What stands around every page."""

from typing import Final

import attrs

PLACES: Final = (
    ("Dashboard", "/ui"),
    ("Jobs", "/ui/jobs"),
    ("Schedules", "/ui/schedules"),
    ("Resources", "/ui/resources"),
    ("Locks", "/ui/locks"),
    ("Filters", "/ui/filters"),
    ("Rates", "/ui/rates"),
    ("History", "/ui/history"),
)
THEMES: Final = ("auto", "light", "dark")


@attrs.frozen
class Choice:
    """A link beside others, of which one is where the visitor is."""

    text: str
    href: str
    is_here: bool = False


@attrs.frozen
class Act:
    """A change that a button begins."""

    href: str
    text: str
    is_grave: bool = False


@attrs.frozen
class Health:
    """The line about the cluster."""

    cluster: str
    master: str
    # "": there is none
    epoch: str
    # how far the candidates' copies are behind; "": nothing is copied
    copies: str
    lags: bool
    # what is wrong with etcd; "": nothing, or there is no lease
    etcd: str
    # dead owners whose locks are kept
    ghosts: int
    is_drained: bool
    version: str


@attrs.frozen
class Frame:
    # path and query of the page
    here: str
    theme: str
    # protection against forged forms
    token: str
    # "": nobody said a name
    caller: str
    rights: str
    has_session: bool
    # None: the page does without
    health: Health | None = None
    # address of the page's event stream; None: it has none
    stream: str | None = None
    notice: str = ""

    @property
    def places(self) -> tuple[Choice, ...]:
        path = self.here.partition("?")[0]
        return tuple(
            Choice(text, href, path == href or (href != "/ui" and path.startswith(f"{href}/"))) for text, href in PLACES
        )
