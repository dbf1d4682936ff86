"""Parts that all jobs share: the job as an object, the kinds of data set, and the layout of a workspace."""
