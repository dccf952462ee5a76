"""Applications and their attempts, from submission to the end. Pure."""
