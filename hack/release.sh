#!/usr/bin/env bash
# release.sh snapshot: goreleaser checks its configuration and builds all; nothing is signed or published.
# release.sh publish: the same for the tag that is checked out, signed, as a draft of a release.
# release.sh notes VERSION: what CHANGELOG.md says of the version, which has to be there.
set -euo pipefail
cd "$(dirname "$0")/.."
notes() {
  awk -v heading="## $1" 'index($0 " ", heading " ") == 1 {on = 1; next} /^## / {on = 0} on && (said || NF) {print; said = 1} END {exit !said}' CHANGELOG.md ||
    { echo "release: CHANGELOG.md says nothing of $1: give it a section \"## $1\"" >&2; return 1; }
}
build() {
  RELEASE_DATE=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
  export RELEASE_DATE PATH=$PWD/bin:$PATH
  ${GO:-go} run ./hack/gen-man bin/isthmus-files
  bin/goreleaser check
  bin/goreleaser release --clean --parallelism "$(getconf _NPROCESSORS_ONLN)" "$@"
}
log=$(mktemp)
trap 'rm -f "$log" "$log.notes"' EXIT
case ${1:-} in
  notes) notes "$2" ;;
  snapshot) build --snapshot --skip=sign > "$log" 2>&1 || { cat "$log" >&2; exit 1; } ;;
  publish)
    [ "$(git describe --tags --exact-match 2>/dev/null)" = "$VERSION" ] || { echo "release: $VERSION is no tag that is checked out, without changes" >&2; exit 1; }
    notes "$VERSION" > "$log.notes"
    build --release-notes "$log.notes"
    ;;
  *) echo "release: what? snapshot, publish or notes" >&2; exit 2 ;;
esac
[ "$1" = notes ] || sed 's/^/    /' bin/dist/SHA256SUMS
