#!/bin/sh
# All tests that this host can run, from a fresh clone: makes .venv on the first call.
#   ./test.sh                 everything, in three passes: `pure`, then what starts daemons, then what is `alone`
#   ./test.sh pure            the first pass only: no daemons, no root, about a minute
#   ./test.sh ARGUMENT...     pytest with these arguments, once, one test after another: ./test.sh -m "not live" -q
# With YOPP_TEST_REPORTS=DIR each pass writes DIR/<pass>.xml (JUnit's form).
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
cd "$root"
unset PYTHONDONTWRITEBYTECODE # a command that compiles yopp anew at each start is nobody's
"$root/scripts/venv.sh" dev
run() {
    name=$1
    shift
    "$root/.venv/bin/python" -m pytest -q "$@" ${YOPP_TEST_REPORTS:+--junitxml="$YOPP_TEST_REPORTS/$name.xml"}
}
case "${1:-all}" in
pure) shift && run pure -n 2 --dist worksteal -m pure "$@" && exit ;;
all) ;;
*) exec "$root/.venv/bin/python" -m pytest "$@" ;;
esac
code=0
run pure -n 2 --dist worksteal -m pure || code=$?
run live -n 2 --dist loadfile -m "not pure and not alone" || code=$?
run alone -m alone || code=$?
exit $code
