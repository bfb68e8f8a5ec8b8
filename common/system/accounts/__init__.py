"""The users of this machine: who they are, whose folders can be trusted, and acting as the user of the daemons."""
