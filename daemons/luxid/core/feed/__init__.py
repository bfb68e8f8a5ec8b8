"""What subscribers of luxid's feed are told: what has changed lately, and who wants to hear of it."""
