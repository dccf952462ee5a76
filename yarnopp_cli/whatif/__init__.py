"""Copies of the daemons' machines in virtual time: when something starts, and what an event would cause. Pure.

A copy decides as its original does, so a question about the future needs no second description of the rules. A daemon
makes a copy by ``fork`` (``daemons/copies.py``); tests ask a machine of their own.

Decisions: reasons-are-data, durations.
"""
