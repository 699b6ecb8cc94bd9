"""Which settings train best: a search that resumes, and trains several trials at a time."""
