"""Coverage-guided fuzzing, by atheris, of what reads bytes or words that others wrote.

``node``, ``protocol``, ``configuration`` and ``commands`` hold the targets: functions of bytes. A target catches the
exceptions that are the documented refusal, and asserts what else must hold; any other exception is a find.
``python -m tests.fuzzing NAME`` runs one.
"""

MODULES = ("node", "protocol", "configuration", "commands")
