#!/usr/bin/env bash
# verify.sh: fails when something generated is stale, a module is not tidy, or a binary
# has grown past its budget. Needs a built bin/ (make verify builds it).
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
fail() { echo "verify: $*" >&2; failed=1; }

echo "==> go mod tidy, gofmt"
go mod tidy -diff >/dev/null || fail "go.mod or go.sum is not tidy: run 'go mod tidy'"
for m in hack/tools/*/; do
  (cd "$m" && go mod tidy -diff >/dev/null) || fail "$m is not tidy: run 'go mod tidy' in it"
done
# The tools that link Kubernetes compile what we share with them only once more if it differs.
versions() { awk '$1 ~ /\./ && $2 ~ /^v/ && $2 != "v0.0.0" { print $1, $2 }' "$1" | LC_ALL=C sort; }
for m in $(grep -l 'k8s.io/api[ @]' hack/tools/*/go.mod); do
  differ=$(join <(versions go.mod) <(versions "$m") | awk '$2 != $3 { printf " %s (%s, %s)", $1, $2, $3 }')
  [ -z "$differ" ] || fail "go.mod and $m have other versions of$differ: 'go get' the newer one in both, so that it compiles once"
done
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || fail "not formatted: $unformatted: run gofmt -w"

echo "==> generated files"
# Contents, not names: a file that was changed before may be changed again.
state() { git status --porcelain; git diff HEAD; }
before=$(state)
go generate ./... || fail "go generate failed"
[ "$before" = "$(state)" ] || fail "generated files are stale: run 'make generate', then see 'git status'"

echo "==> sizes of the stripped binaries"
budget() { # binary, decimal megabytes
  local size; size=$(stat -c %s "bin/$1" 2>/dev/null || stat -f %z "bin/$1") || { fail "bin/$1 is missing: run 'make build'"; return; }
  printf '    %-30s %5.1f MB of %d MB\n' "$1" "$(awk "BEGIN{print $size/1000000}")" "$2"
  [ "$size" -le $(($2 * 1000000)) ] || fail "bin/$1 is larger than $2 MB: find what it links anew (go list -deps) and cut it"
}
budget cloud-controller-manager 58
budget isthmus-credential-provider 15
exit "$failed"
