"""The manual: pages as data (``roff``), their prose (``text``), and what declarations make of them (``pages``).

``python -m yarnopp_cli.manual`` rewrites the generated files of a source tree.
"""
