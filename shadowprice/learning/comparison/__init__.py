"""A model beside the one it would replace, on the test rows: what each brings, and how well it predicts."""
