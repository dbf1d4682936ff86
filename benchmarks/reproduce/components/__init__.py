"""Components that measure the papers' tables."""
