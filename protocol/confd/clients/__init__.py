"""Clients of confd, without a loop and for trio; both send what `gathering` says."""
