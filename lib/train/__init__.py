"""Stage 2's wing: the loss, the schedule and the loop of one fold."""
