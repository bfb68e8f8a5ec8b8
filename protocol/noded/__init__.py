"""RPC: the calls of node daemons on Ganeti's wire, and the clients that send them to many nodes.

A call is a frozen class in a module of its noun: `files`, `statefiles` (the queue, too), `membership` (of nodes, and
the mastership), `facts`, `commands`; `joining` has the messages of a new machine. `procedures` is the table of all
names, with what the refused ones would need. `call` has the base of all calls, their bodies on the wire, and what they
come to.

To many nodes, in `clients`: `client` (for trio) and `blocking` (without a loop) send a call to nodes and return an
outcome for each; `line` speaks to one node, `recipients` takes nodes from a configuration. Both clients stand on
`connection` (a socket, with TLS and HTTP), with `certificates`, and decide by `judging`.

Source: noded.md.
"""
