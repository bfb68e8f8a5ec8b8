"""Opcodes: what a job asks for. `base` has the class and the registry, each family a module."""
