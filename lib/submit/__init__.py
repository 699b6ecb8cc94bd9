"""All collections, one submission, the local leaderboard."""
