# shellcheck shell=sh disable=SC2154
# The end of a task's shell with --results (outputs.py): it runs the command, with its output in files.
#
# The shell waits for the command: one that does not check its writes does not know that they were refused. A write for
# which there is no room ends with a whole block. Then, and without output, a write is tried, by the same user.
__probe=.yopp-$CONTAINER_ID
case $__out in */*) mkdir -p -- "${__out%/*}" || exit 125; __probe=${__out%/*}/$__probe; esac
trap : TERM HUP INT
(exec "$@" >"$__out" 2>"$__err") 2>/dev/null # without exec, the shell would take its own echo for the program
__code=$?
[ $__code = 0 ] || exit $__code
__size=$(wc -c <"$__out") && [ $((__size % 4096)) = 0 ] || __size=
[ "$__size" ] && [ $__size != 0 ] ||
{ __more=$(wc -c <"$__err") && [ $__more != 0 ] && [ $((__more % 4096)) = 0 ] && __size=$__more; }
[ "$__size" ] || exit 0
[ $__size = 0 ] && __size=4096 || __size=1048576
set -C
{ printf %${__size}s "" >"$__probe"; } 2>/dev/null || __code=74
rm -f -- "$__probe"
[ $__code = 0 ] || echo "yopp: the output in $__out may be incomplete: its file system accepts no more" >&2
exit $__code
