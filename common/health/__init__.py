"""Whether an installation is well."""
