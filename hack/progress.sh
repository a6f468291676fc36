#!/usr/bin/env bash
# progress.sh NAME COMMAND…: runs COMMAND, says every 15 s that it is still at it, and
# how long it took when that was more than 2 s.
set -u
name=$1; shift
start=$SECONDS
"$@" & pid=$!
( while sleep 15; do echo "    … $name ($((SECONDS - start)) s)"; done ) & ticker=$!
trap 'kill "$ticker" 2>/dev/null' EXIT
trap 'kill "$pid" 2>/dev/null; wait "$pid"; exit 130' INT TERM
wait "$pid"; rc=$?
[ "$rc" -eq 0 ] && [ $((SECONDS - start)) -gt 2 ] && echo "    $name: $((SECONDS - start)) s"
exit "$rc"
