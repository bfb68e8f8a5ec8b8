"""The opcode: data, which is checked when a job is submitted."""

from typing import ClassVar

import attrs

from common.lockdecl import LockDeclaration, Resolver, declare
from common.locks import LockLevel, LockMode, member_lock
from common.opcodes.base import OpCode
from common.opcodes.types import SECRET, JsonObject, NonEmpty, Positive


@attrs.frozen(kw_only=True)
class OpSitePublish(OpCode):
    """Publish a new release of a web site, and delete the oldest ones. The class gives the id: OP_SITE_PUBLISH."""

    SUMMARY: ClassVar[str | None] = "site"

    site: NonEmpty
    # folder with the files of the new release
    source: NonEmpty
    # folder that holds the releases of all sites
    store: NonEmpty
    # number of releases to keep
    keep: Positive = 3
    # {"key": ...}, the key that signs the release; never in a file, a list or a log
    credentials: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)

    def lock_declaration(self, resolve: Resolver | None = None) -> LockDeclaration:
        """The site exclusively; the store shared with the jobs of other sites, but not while a job cleans it up."""
        return declare(
            {
                member_lock(LockLevel.INSTANCE, self.site): LockMode.EXCLUSIVE,
                member_lock(LockLevel.NODE_RES, "sites"): LockMode.SHARED,
            }
        )
