#!/usr/bin/env bash
# testargs.sh COMMAND…: runs COMMAND with the words of $TESTARGS as its last arguments.
# Words end at blanks; quotes, double or single, and backslashes keep blanks in a word.
# Nothing else is special: | $ * ( ) & are what `go test` gets.
set -uo pipefail
mapfile -d '' words < <(xargs -r printf '%s\0' <<< "${TESTARGS-}")
wait "$!" || { echo "TESTARGS: the quotes do not match in: ${TESTARGS-}" >&2; exit 2; }
exec "$@" ${words[@]+"${words[@]}"}
