#!/bin/sh
# The parent of one container: shim.sh EXIT-FILE [CGROUP.PROCS...] -- COMMAND [ARGUMENT...]
#
# It stays outside the container's cgroups, so that neither the OOM killer nor a kill of the group takes away the one
# that reports. It assigns no variable: the container's environment is the one it was given, and goes through untouched.
# The exit file gets two lines: the shim's pid at the start, the command's exit code (as a shell tells it) at the end.

# A handler, not "ignore": what is ignored here would be ignored by the container too.
trap : TERM HUP INT

# Only one shim ever runs for an exit file: whoever finds it there already does nothing.
set -C
exec 9>"$1" 8>&2 2>/dev/null
set +C
echo $$ >&9
shift

(
	exec 2>&8 8>&- 9>&-
	while [ "$1" != -- ]; do
		# Zero means the process that writes.
		echo 0 >"$1" || exit 125
		shift
	done
	shift
	exec "$@"
)
echo $? >&9
