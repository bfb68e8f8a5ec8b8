"""The event stream of a page: its parts, as they change."""
