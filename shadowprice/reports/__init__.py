"""What a person reads about a run: one self-contained HTML page, and short texts for pipeline steps."""
