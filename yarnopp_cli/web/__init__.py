"""YARN's REST API and pages, served by the daemons themselves.

``listening`` and ``calls`` are all that a daemon loads before somebody asks; aiohttp comes with the first request.
Documents are made in ``views``; nothing here decides about containers.

Decisions: rest-as-running.
"""
