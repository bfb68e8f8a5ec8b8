"""The HTTP interface under made-up requests, and by clients that are made of its document."""
