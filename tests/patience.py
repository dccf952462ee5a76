"""How long tests wait for conditions: ``YOPP_TEST_PATIENCE`` times as long as elsewhere, where a whole kernel is one
process of a host that may give it a fraction of a processor. No test is slower for it unless it fails."""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("YOPP_TEST_PATIENCE", "1"))
