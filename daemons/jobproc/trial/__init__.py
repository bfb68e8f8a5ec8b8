"""What stands in for the job process and its daemons while a unit is under trial; `testing.py` is the way in."""
