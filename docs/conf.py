"""Sphinx's settings for the guide and the reference pages; `make docs` builds them, without a network."""

import importlib.metadata

project = "Gantry"
author = "The Gantry authors"
project_copyright = author
release = importlib.metadata.version("gantry")

# two hyphens and quotes are typed as they stand
smartquotes = False

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
# so that a page can link to any heading of another one, and a link to none is an error
myst_heading_anchors = 4
nitpicky = True
# what the code cites stays as it is, and is read in the repository
exclude_patterns = ["_build", "README.md", "design.md", "machines.md", "reference/**"]

html_theme = "furo"
html_title = f"Gantry {release}"
html_copy_source = False
html_show_sphinx = False
