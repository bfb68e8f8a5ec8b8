"""The manual: its pages from the sources of `--help`, the settings and the tables; as man pages and as Markdown."""
