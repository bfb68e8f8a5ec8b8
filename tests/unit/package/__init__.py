"""What holds for the files from which the package is built."""
