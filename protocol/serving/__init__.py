"""The server of a daemon: connections, their bounds, and the table of its calls.

Source: DESIGN section 4.
"""
