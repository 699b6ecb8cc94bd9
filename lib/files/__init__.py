"""Files: whole or absent, errors in one line, weights, text for terminals."""
