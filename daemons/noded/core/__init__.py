"""What noded decides, without files and clocks."""
