"""Changes of files that outlive a crash: temporary file, fsync, rename, fsync of the folder."""
