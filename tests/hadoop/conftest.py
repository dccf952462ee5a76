"""Tests against a real Hadoop, which `scripts/against-hadoop` starts: not collected where there is none."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("YOPP_TEST_HADOOP") else ["test_*.py"]
