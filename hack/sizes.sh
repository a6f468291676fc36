#!/usr/bin/env bash
# sizes.sh FILE: writes a table of what the binaries weigh with and without each of ALL_CLOUDS, built with LDFLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tags() { for c in $1; do echo "no_$c"; done | paste -sd, -; }
without() { for c in $ALL_CLOUDS; do [ "$c" = "$1" ] || echo "$c"; done; }
size() { # package, tags
  GOOS=linux GOARCH=amd64 ${GO:-go} build -buildvcs=false -tags "$2" -ldflags "$LDFLAGS" -o "$dir/binary" "./cmd/$1" > /dev/null || return 1
  stat -c %s "$dir/binary" | awk '{printf "%.1f", $1 / 1000000}'
}
table="$dir/table"
row() { # name, clouds that are left out
  local t manager=– cli=– provider; t=$(tags "$2")
  for f in pkg/providers/no_*.go; do # they have fewer clouds than the credential provider
    f=${f#*/no_}
    [[ " ${2//$'\n'/ } " = *" ${f%.go} "* ]] || { manager=$(size cloud-controller-manager "$t"); cli=$(size isthmus "$t"); break; }
  done
  provider=$(size credential-provider "$t")
  echo "| $1 | $manager | $provider | $cli |"
}
{
cat << EOF
# Sizes of the binaries

Written by \`make sizes\`, with $(${GO:-go} env GOVERSION) for linux/amd64, stripped, in decimal megabytes. A cloud is left out by
the build tag \`no_<cloud>\`; \`make build CLOUDS=openstack\` sets the tags for all others.

| built with | cloud-controller-manager | isthmus-credential-provider | isthmus |
|---|---|---|---|
EOF
row "all clouds" ""
for c in $ALL_CLOUDS; do row "all but $c (\`-tags no_$c\`)" "$c"; done
for c in $ALL_CLOUDS; do row "$c alone (\`CLOUDS=$c\`)" "$(without "$c")"; done
} > "$table"
mv "$table" "$1"
chmod 644 "$1"
