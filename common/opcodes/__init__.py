"""Opcodes: what a job asks for. `base` has their class, `registry` finds them, each family is a module."""
