"""rapid: HTTP for other machines: Ganeti's RAPI, our own interface, events, metrics, the web page.

Source: DESIGN sections 12 and 15.
"""
