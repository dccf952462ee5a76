"""YARN's REST API and pages, served by the daemons themselves.

A daemon loads only ``listening`` and ``calls`` at its start; aiohttp is loaded with the first request. ``views`` makes
the documents; this package decides nothing about containers.

Decisions: rest-as-running.
"""
