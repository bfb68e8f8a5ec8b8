"""The HTTP interface under made-up requests."""
