"""The verbs on tags, which several programs have: one module for each kind of objects, mounted by `mounting`."""
