"""What a run leaves behind: its record, its W&B run, what it came from, the memory it took."""
