"""The folders of an installation, and the names of files in them."""
