"""The content of ``yopp top``: pictures of a cluster as tables, lines and notes. Pure."""
