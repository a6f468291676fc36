#!/usr/bin/env bash
# need.sh TOOL…: installs Debian's packages of these names where the tools are missing and this is
# root on Debian; elsewhere it says which are.
set -euo pipefail
missing=()
for tool in "$@"; do command -v "$tool" > /dev/null || missing+=("$tool"); done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "${missing[*]}: not here: install what is missing (apt-get install ${missing[*]}, dnf install ${missing[*]})" >&2
  exit 1
fi
echo "==> installing Debian's ${missing[*]}"
log=$(apt-get -qq update 2>&1 && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "${missing[@]}" 2>&1) || { echo "$log" >&2; exit 1; }
