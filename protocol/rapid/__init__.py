"""The HTTP interface under /3: what is sent and received, as frozen classes, and a client.

Source: DESIGN section 15.
"""
