"""What all commands share: their options, how they print, what people mean by an id, and where they work."""
