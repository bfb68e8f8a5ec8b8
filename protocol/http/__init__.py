"""An HTTP server for daemons: connections and bodies, both bounded; only daemons import it."""
