#!/bin/sh
# Run yopp from a fresh clone: the first call makes .venv. Then runs the command `yopp` in it.
#   ./yopp.sh pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
"$root/scripts/venv.sh"
exec "$root/.venv/bin/yopp" "$@"
