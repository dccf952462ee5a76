"""The program ``yopp``: hands its arguments to the command line and ends with the code that comes back."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line that this process was started with, and exit."""
    from .cli.app import run, secure_standard_streams

    secure_standard_streams()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
