"""Copies of the daemons' machines in virtual time: they show when a container starts, and the effects of an event.
Pure.

A copy decides as its original does, so a question about the future needs no second description of the rules. A daemon
makes a copy by ``fork`` (``daemons/copies.py``); tests ask a machine of their own.

Decisions: reasons-are-data, durations.
"""
