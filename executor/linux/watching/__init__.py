"""What looks at the machine and at the containers of a node while they run, and tells the core what it finds."""
