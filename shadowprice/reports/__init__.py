"""Reports on a run: one self-contained HTML page, and short texts for pipeline steps."""
