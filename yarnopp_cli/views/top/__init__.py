"""What ``yopp top`` shows: pictures of a cluster as tables, lines and notes. Pure."""
