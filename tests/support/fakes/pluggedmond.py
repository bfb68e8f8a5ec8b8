"""mond with plug-in packages from the folder $MOND_PLUGINS, as if they were installed."""

import os
import sys

from daemons.mond.main import main

if __name__ == "__main__":
    sys.path.append(os.environ["MOND_PLUGINS"])
    main()
