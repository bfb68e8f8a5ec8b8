"""How the daemons talk: framing, envelopes, the typed methods of each daemon, server and clients."""
