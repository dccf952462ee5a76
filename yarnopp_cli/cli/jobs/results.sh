# shellcheck shell=sh disable=SC2154
# The end of a task's shell with --results (outputs.py): it runs the command, with its output in files.
#
# The shell waits for the command: one that does not check its writes does not know that they were refused. A write for
# which there is no room ends with a whole block. Then, without output, and where a short write may have found room after
# a refused one, a write is tried, by the same user.
__probe=.yopp-$CONTAINER_ID
case $__out in */*) mkdir -p -- "${__out%/*}" || exit 125; __probe=${__out%/*}/$__probe; esac
trap : TERM HUP INT
(exec "$@" >"$__out" 2>"$__err") 2>/dev/null # without exec, the shell would take its own echo for the program
__code=$?
[ $__code = 0 ] || exit $__code
__need=0
for __file in "$__out" "$__err"; do
    __size=$(wc -c <"$__file") || continue
    if [ "$__size" != 0 ] && [ $((__size % 4096)) = 0 ]; then
        __need=1048576
    elif [ $__need = 0 ] && { [ "$__size" -gt 4096 ] || [ "$__size$__file" = "0$__out" ]; }; then
        __need=4096
    fi
done
[ $__need != 0 ] || exit 0
set -C
{ printf %${__need}s "" >"$__probe"; } 2>/dev/null || __code=74
rm -f -- "$__probe"
[ $__code = 0 ] || echo "yopp: the output in $__out may be incomplete: its file system accepts no more" >&2
exit $__code
