#!/bin/sh
# All tests that this host can run, from a fresh clone: makes .venv on the first call.
# Arguments go to pytest, for example: ./test.sh -m "not live" -q
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
cd "$root"
"$root/scripts/venv.sh" dev
exec "$root/.venv/bin/python" -m pytest "$@"
