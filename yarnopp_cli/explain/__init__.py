"""Why something waits, and when it may start. Pure."""
