"""A cluster on this host: start it, find it, inspect it, end it, clear what it left."""
