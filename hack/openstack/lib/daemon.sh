#!/usr/bin/env bash
# daemon.sh COMMAND…: writes its process ID and its start time to $PIDFILE and becomes COMMAND.
stat=$(cat "/proc/$$/stat")
fields=(${stat##*) })
echo "$$ ${fields[19]}" > "$PIDFILE"
unset PIDFILE
exec "$@"
