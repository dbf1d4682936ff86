"""Days of a run after the first: retrains beside a frozen model."""
