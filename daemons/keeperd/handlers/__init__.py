"""The calls of keeperd's Unix socket, by noun."""
