"""``yopp top``: the screens, in Textual. Only ``app.py`` and what it imports load Textual; ``source.py`` does not."""
