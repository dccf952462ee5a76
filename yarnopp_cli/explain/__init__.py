"""Why something waits, and when it may start: values. ``views/explain`` makes the sentences. Pure."""
