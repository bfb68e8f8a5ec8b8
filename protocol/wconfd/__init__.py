"""WConfD: the methods of wconfd, as requests with their arguments in wire order, one module a noun.

Unit is `[]` on the wire.

Source: wconfd.md section 2; `waitLocks`, `explainWait`, `explainHoldings`, `subscribe`, and the calls on single
objects, filter rules and the file are ours.
"""
