"""LUXI: the methods of luxid, as requests with their arguments in wire order, one module a noun.

Source: luxid.md section 2; what is marked as ours is not in it.
"""
