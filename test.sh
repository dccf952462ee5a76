#!/bin/sh
# Run all tests that this host can run. In a fresh clone, the first call makes .venv.
#   ./test.sh                 all tests, in three passes: `pure`, tests with daemons, tests that must run `alone`
#   ./test.sh pure            only the first pass: no daemons, no root, about a minute
#   ./test.sh ARGUMENT...     pytest with these arguments, in one process: ./test.sh -m "not live" -q
# With YOPP_TEST_REPORTS=DIR each pass writes DIR/<pass>.xml (JUnit format).
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
cd "$root"
unset PYTHONDONTWRITEBYTECODE # no user compiles yopp anew at each start
"$root/scripts/venv.sh" dev
run() {
    name=$1
    shift
    "$root/.venv/bin/python" -m pytest -q "$@" ${YOPP_TEST_REPORTS:+--junitxml="$YOPP_TEST_REPORTS/$name.xml"}
}
case "${1:-all}" in
pure) shift; run pure -n 2 --dist worksteal -m pure "$@"; exit ;;
all) ;;
*) exec "$root/.venv/bin/python" -m pytest "$@" ;;
esac
code=0
run pure -n 2 --dist worksteal -m pure || code=$?
run live -n 3 --dist loadfile -m "not pure and not alone" || code=$?
run alone -m alone || code=$?
exit $code
