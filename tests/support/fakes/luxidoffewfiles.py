"""luxid, whose replies about a repair have few files."""

from typing import Final

from daemons.luxid.handlers import repairs
from daemons.luxid.main import main

FEW: Final = 6

if __name__ == "__main__":
    repairs.MOST = FEW  # type: ignore[misc]
    main()
