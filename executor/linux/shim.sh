#!/bin/sh
# The parent of one container: shim.sh EXIT-FILE STEP... -- COMMAND [ARGUMENT...]
#
# It stays outside the container's cgroups, so that neither the OOM killer nor a kill of the group takes away the one
# that reports. The steps are taken by the process that becomes the command, in their order:
#   FILE      it enters the cgroup of this cgroup.procs (or tasks) file
#   --gate    it waits for a line on standard input, which is empty from then on; none comes: it never began
#   --begin   it makes the exit file
#   --files=N it may have so many files open (its soft limit)
# The exit file gets two lines: the shim's pid at the beginning, the command's exit code (as a shell tells it) at the
# end. The container's environment goes through untouched: who launches it knows which variables are assigned here.

# A handler, not "ignore": what is ignored here would be ignored by the container too.
trap : TERM HUP INT

YOPP_SHIM_EXIT_FILE=$1
shift
exec 8>&2 2>/dev/null
(
	exec 2>&8 8>&-
	while [ "$1" != -- ]; do
		case $1 in
		--gate)
			read -r YOPP_SHIM_WORD || { kill -KILL $$; exit 125; }
			exec </dev/null
			;;
		--begin)
			# Only one ever begins for an exit file: whoever finds it there already does nothing, and its shim
			# must not add to it.
			set -C
			{ { echo $$ >&9 || :; } 9>"$YOPP_SHIM_EXIT_FILE"; } 2>/dev/null || { kill -KILL $$; exit 125; }
			set +C
			;;
		--files=*)
			ulimit -S -n "${1#*=}"
			;;
		*)
			# Zero means the process that writes.
			echo 0 >"$1" || exit 125
			;;
		esac
		shift
	done
	shift
	exec "$@"
)
YOPP_SHIM_WORD=$?
if [ -s "$YOPP_SHIM_EXIT_FILE" ]; then
	echo "$YOPP_SHIM_WORD" >>"$YOPP_SHIM_EXIT_FILE"
fi
# For a node that is still there, where nothing has begun or nothing can be written.
exit "$YOPP_SHIM_WORD"
