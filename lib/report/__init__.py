"""What a collection's outputs say, for people: report, comparison, status."""
