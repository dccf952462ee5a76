"""Commands that explain yopp itself: manual, completion, versions."""
