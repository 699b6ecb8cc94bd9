"""Search of the settings that train best: it resumes, and trains several trials at a time."""
