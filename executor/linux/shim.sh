#!/bin/sh
# The parent of one container: shim.sh EXIT-FILE STEP... -- COMMAND [ARGUMENT...]
#
# It stays outside the container's cgroups, so that neither the OOM killer nor a kill of the group takes away the one
# that reports. The steps are taken by the process that becomes the command, in their order:
#   --reaps   first, if at all: the shim is a subreaper, and ends what the command has left
#   FILE      it enters the cgroup of this cgroup.procs (or tasks) file
#   --begin   it makes the exit file
#   --files=N it may have so many files open (its soft limit)
#   --oom=N   it has this score for the OOM killer, as far as that is permitted
#   --idle    it has the idle class of the CPU
#   --umask=N it has this umask, in octal digits
# The exit file gets two lines: the shim's pid at the beginning, the command's exit code (as a shell tells it) at the
# end. The container's environment goes through untouched: who launches it knows which variables are assigned here.

# A handler, not "ignore": what is ignored here would be ignored by the container too.
trap : TERM HUP INT

YOPP_SHIM_EXIT_FILE=$1
shift
exec 8>&2 2>/dev/null
# A shell that cannot fork exits; so the node learns that the command has not begun (CANNOT_FORK in shim.py).
trap 'exit 75' EXIT
(
	exec 2>&8 8>&-
	while [ "$1" != -- ]; do
		case $1 in
		--reaps) ;;
		--begin)
			# Only one ever begins for an exit file: whoever finds it there already does nothing, and its shim
			# must not add to it. Where the file cannot be made, the command has not begun (CANNOT_BEGIN).
			set -C
			{ { echo $$ >&9 || :; } 9>"$YOPP_SHIM_EXIT_FILE"; } 2>/dev/null || {
				[ -e "$YOPP_SHIM_EXIT_FILE" ] || exit 74
				kill -KILL $$
				exit 125
			}
			set +C
			;;
		--files=*)
			ulimit -S -n "${1#*=}"
			;;
		--oom=*)
			{ echo "${1#*=}" >/proc/self/oom_score_adj; } 2>/dev/null || :
			;;
		--idle)
			read -r YOPP_SHIM_WORD YOPP_SHIM_LEFT </proc/self/stat
			chrt -i -p 0 "$YOPP_SHIM_WORD" >/dev/null 2>&1 || renice -n 19 -p "$YOPP_SHIM_WORD" >/dev/null 2>&1 || :
			;;
		--umask=*)
			umask "${1#*=}"
			;;
		*)
			# Zero means the process that writes.
			echo 0 >"$1" || {
				[ ! -e "$YOPP_SHIM_EXIT_FILE" ] || : >"$YOPP_SHIM_EXIT_FILE"
				exit 74
			}
			;;
		esac
		shift
	done
	shift
	exec "$@"
)
YOPP_SHIM_WORD=$?
trap - EXIT
if [ "$1" = --reaps ]; then
	# Orphans of the command are children of this process: they end with it, whatever they did to their environment
	# and session. One that keeps forking is left to the node. The empty subshell reaps the dead ones.
	# On a busy host, a killed one needs many rounds until it has ended and left its own children to this process.
	YOPP_SHIM_ROUND=0
	while [ "$((YOPP_SHIM_ROUND += 1))" -le 200 ]; do
		YOPP_SHIM_LEFT=
		read -r YOPP_SHIM_LEFT <"/proc/$$/task/$$/children" || :
		[ "$YOPP_SHIM_LEFT" ] || break
		# shellcheck disable=SC2086
		kill -KILL $YOPP_SHIM_LEFT
		(:)
	done
fi
if [ -s "$YOPP_SHIM_EXIT_FILE" ]; then
	echo "$YOPP_SHIM_WORD" >>"$YOPP_SHIM_EXIT_FILE"
fi
# Reports to a running node if the command has not begun, or the exit file cannot be written.
exit "$YOPP_SHIM_WORD"
