"""Results for people: report, comparison, status."""
