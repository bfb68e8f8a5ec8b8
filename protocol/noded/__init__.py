"""RPC: the calls of node daemons on Ganeti's wire, and the clients that send them to many nodes.

A call is a frozen class in a module of its noun: `queue`, `files`, `mastership`, `membership`, `facts`, `verifying`,
`instances`, `work`. `procedures` is the table of all names, with what the refused ones would need.

Around the calls: `call` (their base, and their request bodies), `replies` (reply bodies), `outcomes` (what a call came
to at one node), `contents` (contents of files), `virtualpaths` (names of files).

Source: noded.md.
"""
