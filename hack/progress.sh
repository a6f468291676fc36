#!/usr/bin/env bash
# progress.sh NAME COMMAND…: runs COMMAND and says every 15 s that it is still at it.
set -u
name=$1; shift
start=$SECONDS
"$@" & pid=$!
trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
( while sleep 15; do echo "    … still building $name ($((SECONDS - start)) s)"; done ) & ticker=$!
trap 'kill "$ticker" 2>/dev/null' EXIT
wait "$pid"; rc=$?
[ "$rc" -eq 0 ] && echo "    $name: $((SECONDS - start)) s"
exit "$rc"
