#!/usr/bin/env bash
# progress.sh NAME COMMAND…: runs COMMAND, says every 15 s that it is still at it, and
# how long it took when that was more than 2 s. When it is told to end, COMMAND and all
# that it started are told as well.
set -um # -m: each job is a process group of its own
name=$1; shift
start=$SECONDS
"$@" & pid=$!
( while sleep 15; do echo "    … $name ($((SECONDS - start)) s)"; done ) & ticker=$!
disown "$ticker"
trap 'kill -- "-$ticker" 2>/dev/null' EXIT
end() { kill "-$1" -- "-$pid"; wait "$pid"; exit 130; } 2>/dev/null
trap 'end INT' INT
trap 'end TERM' TERM HUP
wait "$pid"; rc=$?
[ "$rc" -eq 0 ] && [ $((SECONDS - start)) -gt 2 ] && echo "    $name: $((SECONDS - start)) s"
exit "$rc"
