"""How long a whole network takes, from what its tensor programs are predicted to take."""
