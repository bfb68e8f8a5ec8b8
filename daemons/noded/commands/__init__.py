"""Commands on this node: their records, their runners, their output."""
