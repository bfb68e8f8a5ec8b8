"""The state of software RAID for gantry-mond."""
