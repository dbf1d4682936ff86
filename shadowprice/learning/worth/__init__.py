"""Worth of personalizing by the labeled rows of a training set: which rows learn, and which judge."""
