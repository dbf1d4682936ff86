"""Worth of personalizing by the labelled rows of a training set: which rows learn, and which judge."""
