"""Pages for a browser at YARN's addresses: rendered here, alive through one small script, nothing from elsewhere."""
