"""The opcodes on the cluster; what values its parameters may have is in the modules `...values`."""
