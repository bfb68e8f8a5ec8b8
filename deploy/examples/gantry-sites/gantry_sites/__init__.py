"""Publishing web sites with Gantry: an example of a plug-in package."""
