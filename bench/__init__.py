"""yopp's speed, compared with other runners of programs and with the least time that any can take: one
program for each question.

    python -m bench.throughput        one table (--short, --json, --help)
    python -m bench                   all of them, as README.md describes them

``native/`` has the floor: a loop in C that starts programs, and a task that writes when it ran. ``rivals.py``
has the other runners; each is skipped with a note if it is not installed. Every figure is a median over
rounds in which the cases take turns, because hosts are noisy.
"""
