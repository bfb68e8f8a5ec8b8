"""An HTTP server for daemons: connections and bodies, both bounded; only daemons import it.

Source: CHOICES 1 and 3.
"""
