#!/usr/bin/env bash
# envtest.sh VERSION FILE: downloads the control plane's binaries of Kubernetes VERSION by setup-envtest, which
# compares them with the index' checksum, and puts the one that is FILE in place. Where that cannot be, it says why in
# one line and fails, soon, so that the caller builds it; the calls of the next ten minutes then fail without a word.
# ENVTEST_INDEX is an index of your own.
set -uo pipefail
version=$1 file=$2 go=${GO:-go}
bin=$(dirname "$file")
index=${ENVTEST_INDEX:-https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml}
tools=$(dirname "$0")/../tools/setup-envtest
mkdir -p "$bin" && bin=$(cd "$bin" && pwd) || exit 1
store=$bin/.envtest failed=$bin/.envtest.failed
fail() {
  echo "$version $index" > "$failed"
  echo "    not downloaded: $*" >&2
  exit 1
}

download() { # ARCHIVE
  local get releases path
  # Looked into before setup-envtest is built: it has no time limit of its own.
  if command -v curl > /dev/null; then get=(curl -fsSL --connect-timeout 3 --max-time 8)
  else get=(wget -nv -O- --timeout=3 --tries=1); fi
  releases=$("${get[@]}" "$index" 2>&1) || fail "$index: ${releases##*$'\n'}"
  [[ $releases == *"$1:"* ]] || fail "$index has no $1"

  rm -rf "$store"
  path=$(env -C "$tools" timeout 300 "$go" tool setup-envtest use "${version#v}" --index "$index" --bin-dir "$store/new" -p path 2>&1) ||
    fail "$(grep . <<< "$path" | tail -1)"
  # Only what is complete has the version's name; and a read-only folder would outlive `make clean`. Before the path, on
  # a new machine, go tells what it downloads.
  chmod -R u+w "$store" && mv "${path##*$'\n'}" "$store/$version"
}

exec 9> "$bin/.envtest.lock"
flock 9 # make may want two of them at a time
if ! [ -d "$store/$version" ]; then
  [ -n "$(find "$failed" -mmin -10 2> /dev/null)" ] && [ "$(cat "$failed")" = "$version $index" ] && exit 1
  download "envtest-$version-$("$go" env GOOS)-$("$go" env GOARCH).tar.gz"
fi
ln -f "$store/$version/$(basename "$file")" "$file" 2> /dev/null || fail "the archive has no $(basename "$file")"
touch "$file"
echo "    $(basename "$file") $version: downloaded"
