"""What the stages will take."""
