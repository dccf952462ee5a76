"""Pages for a browser at YARN's addresses: rendered here, refreshed by one small script, without external resources."""
