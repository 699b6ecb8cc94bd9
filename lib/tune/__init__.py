"""Which settings train best: a search that prunes, resumes, and trains several at a time."""
