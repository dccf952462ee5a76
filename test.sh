#!/bin/sh
# All tests that this host can run, from a fresh clone: makes .venv on the first call.
# First those that may run beside each other, then those that want the machine for themselves.
# Arguments go to pytest, which then runs once and one test after another: ./test.sh -m "not live" -q
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
cd "$root"
"$root/scripts/venv.sh" dev
[ $# = 0 ] || exec "$root/.venv/bin/python" -m pytest "$@"
code=0
"$root/.venv/bin/python" -m pytest -q -n 2 --dist loadfile -m "not alone" || code=$?
"$root/.venv/bin/python" -m pytest -q -m alone || code=$?
exit $code
