"""RPC: the calls of node daemons on Ganeti's wire, and the clients that send them to many nodes.

A call is a frozen class in a module of its noun: `queue`, `files`, `mastership`, `membership`, `facts`, `verifying`,
`instances`, `work`. `procedures` is the table of all names, with what the refused ones would need.

On the wire: `call` (their base, and bodies of requests), `replies` (bodies of replies), `contents` (contents of files),
`virtualpaths` (names of files), `fileowners` (names of their owners), `localfiles` (uploads of files that are here).

To many nodes, in `clients`: `client` (for trio) and `blocking` (without a loop) send a call to `nodes` and return
`outcomes`, one for each node; `recipients` takes the nodes from a configuration. Both clients stand on `connection` (a
socket) and `channel` (TLS and HTTP, without I/O), with `certificates`, and decide by `judging` and `backoff`; `kept`
holds the trio client's idle connections.

Source: noded.md.
"""
