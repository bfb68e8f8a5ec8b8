"""The transport over real sockets."""
