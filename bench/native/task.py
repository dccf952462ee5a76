"""``task.c`` for a host without a C compiler: its first instruction is some 10 ms late."""

import sys
import time

line = str(time.monotonic_ns())
if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
    line += f" {time.monotonic_ns()}"
with open(sys.argv[1], "a", encoding="ascii") as file:
    file.write(line + "\n")
