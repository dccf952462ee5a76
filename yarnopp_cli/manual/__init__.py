"""The manual: pages as data (``roff``), their prose (``text``), and the pages made from declarations (``pages``).

``python -m yarnopp_cli.manual`` rewrites the generated files of a source tree.
"""
