"""The protocol of confd: signed questions about the configuration, one datagram each way; server and clients share it.

Source: confd.md.
"""
