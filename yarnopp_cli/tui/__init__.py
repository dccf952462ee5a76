"""``yopp top``: the screens, in Textual. Only ``app.py`` and its imports load Textual; ``source.py`` does not."""
