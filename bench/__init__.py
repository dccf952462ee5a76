"""What yopp's speed is, beside other runners of programs and the least that any can take: one program a question.

    python -m bench.throughput        one table (--short, --json, --help)
    python -m bench                   all of them, as docs/performance.md shows them

``native/`` has the floor: a loop in C that starts programs, and a task that writes down when it ran. ``rivals.py`` has
the other runners, each skipped with a word where it is not installed. Every figure is a median over rounds in which the
cases take turns, because machines are noisy.
"""
