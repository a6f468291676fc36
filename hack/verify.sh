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
# The tools that link Kubernetes compile what our commands share with them only once more if it differs. Prometheus' has its own versions.
linked=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/... | LC_ALL=C sort -u)
versions() { awk '$1 ~ /\./ && $2 ~ /^v/ && $2 != "v0.0.0" { print $1, $2 }' "$1" | LC_ALL=C sort; }
for m in $(grep -l 'k8s.io/api[ @]' hack/tools/*/go.mod | grep -v /prometheus/); do
  differ=$(join <(versions go.mod | LC_ALL=C join - <(echo "$linked")) <(versions "$m") | awk '$2 != $3 { printf " %s (%s, %s)", $1, $2, $3 }')
  [ -z "$differ" ] || fail "go.mod and $m have other versions of$differ: 'go get' the newer one in both, so that it compiles once"
done
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || fail "not formatted: $unformatted: run gofmt -w"

echo "==> the tool that says what is linked in, and under which licenses"
(cd hack/tools/ship && go vet ./... && go test ./...) >/dev/null || fail "hack/tools/ship fails: run 'go vet ./... && go test ./...' in it"

echo "==> workflows"
# Without the linters of shell scripts that may be installed here and elsewhere not.
bin/actionlint -shellcheck= -pyflakes= || fail "a workflow of .github has a mistake, see above"
for target in $(grep -o '^e2e-[a-z]*' Makefile); do
  grep -q "$target[],' ]" .github/workflows/ci.yaml || fail "no workflow runs make $target: add it to ci.yaml"
done

echo "==> generated files"
# Contents, not names: a file that was changed before may be changed again.
state() { git status --porcelain; git diff HEAD; }
before=$(state)
go generate ./... || fail "go generate failed"
[ "$before" = "$(state)" ] || fail "generated files are stale: run 'make generate', then see 'git status'"

echo "==> TESTARGS reach the tests as they are given"
# printf in place of go prints what it gets; a folder of one's own needs no tools.
given() { MAKEFLAGS= KUBEBUILDER_ASSETS=/ make -s test GO='printf [%s]' PKGS=./x "$@" 2>&1 | grep -o '\[\./x\].*'; }
check_args() { # TESTARGS, what is to come out
  local got; got=$(given TESTARGS="$1")
  [ "$got" = "[./x]$2" ] || fail "make test TESTARGS='$1' runs go test with ${got:-nothing} instead of [./x]$2"
  got=$(TESTARGS=$1 given)
  [ "$got" = "[./x]$2" ] || fail "TESTARGS='$1' make test runs go test with ${got:-nothing} instead of [./x]$2"
}
check_args '' ''
check_args '-run TestA|TestB' '[-run][TestA|TestB]'
check_args '-run "^(TestA|TestB)$" -count 2' '[-run][^(TestA|TestB)$][-count][2]'
check_args "-run 'TestA/with blanks' -v" '[-run][TestA/with blanks][-v]'
check_args '-run "" -v ""' '[-run][][-v][]'
check_args '-run TestA/a;b&c>d*' '[-run][TestA/a;b&c>d*]'
for target in e2e-openstack e2e-kubelet e2e-cluster; do
  case $(MAKEFLAGS= make -n "$target" 2>/dev/null) in # grep -q would end the pipe before make is done
    *"hack/testargs.sh hack/"*/e2e.sh*) ;;
    *) fail "$target does not give its TESTARGS to hack/testargs.sh" ;;
  esac
done

echo "==> other systems compile"
for target in linux/amd64 linux/arm64 windows/amd64; do
  packages=./cmd/credential-provider
  [ "${target%/*}" = windows ] || packages="./cmd/..." # the manager runs on Linux
  GOOS=${target%/*} GOARCH=${target#*/} go build -o /dev/null $packages || fail "$packages does not compile for $target"
done

echo "==> sizes of the stripped binaries"
budget() { # binary, decimal megabytes
  local size; size=$(stat -c %s "bin/$1" 2>/dev/null || stat -f %z "bin/$1") || { fail "bin/$1 is missing: run 'make build'"; return; }
  printf '    %-30s %5.1f MB of %d MB\n' "$1" "$(awk "BEGIN{print $size/1000000}")" "$2"
  [ "$size" -le $(($2 * 1000000)) ] || fail "bin/$1 is larger than $2 MB: find what it links anew (go list -deps) and cut it"
}
# With all clouds, and with AWS alone, whose SDK is the largest.
budget cloud-controller-manager 68
tags=$(for c in $ALL_CLOUDS; do [ "$c" = aws ] || echo "no_$c"; done | paste -sd, -)
go build -buildvcs=false -tags "$tags" -ldflags "$LDFLAGS" -o bin/cloud-controller-manager-aws ./cmd/cloud-controller-manager || fail "make build CLOUDS=aws fails"
budget cloud-controller-manager-aws 50
rm -f bin/cloud-controller-manager-aws
budget isthmus-credential-provider 15
budget isthmus 60
exit "$failed"
