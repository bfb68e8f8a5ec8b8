"""Run the commands of the guide's pages, and compare what they print with what the pages say."""
