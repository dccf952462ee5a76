#!/bin/sh
# Run yopp from a fresh clone: the first call makes .venv. Then runs the command `yopp` in it.
#   ./yopp.sh pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100
# It assigns no variable: an exported one of that name would reach the jobs with another value. Exported functions of bash
# and other variables whose names are none to /bin/sh do not get past it: .venv/bin/yopp passes them on.
set -eu
"$(dirname "$(readlink -f "$0")")/scripts/venv.sh"
exec "$(dirname "$(readlink -f "$0")")/.venv/bin/yopp" "$@"
