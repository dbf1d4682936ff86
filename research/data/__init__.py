"""Generated and public trials on which methods are compared."""
