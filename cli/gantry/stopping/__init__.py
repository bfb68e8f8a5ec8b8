"""What `gantry down` does besides asking the supervisor: ends processes, and tells of the mastership."""
