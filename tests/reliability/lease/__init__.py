"""Candidates under a lease in etcd that are killed, stopped and cut off, while clients work; and their judgement."""
