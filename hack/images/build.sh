#!/usr/bin/env bash
# build.sh FILES FOLDER: builds the Dockerfile's images with buildah, which needs no daemon, for
# PLATFORMS: FOLDER/BINARY is an OCI layout. What files.sh has put into FILES takes the place of the
# stage that compiles. The same files make the same digests.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
files=$1 out=$2
hack/need.sh buildah # or use docker build, see the Dockerfile
store=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$store/root" --runroot "$store/run" "$@"; }
# Its folders are not all its user's own where the user is not root.
trap 'rm -rf "$store" 2> /dev/null || command buildah unshare rm -rf "$store"' EXIT
for name in cloud-controller-manager isthmus-credential-provider; do
  for platform in $(tr , '\n' <<< "$PLATFORMS" | LC_ALL=C sort); do # one by one: the index lists them as they get ready
    log=$(buildah build --target "$name" --platform "$platform" --manifest "$name" --build-context "build=$files" \
      ${BASE:+--build-arg "BASE=$BASE"} --build-arg "VERSION=$VERSION" --build-arg "REVISION=$REVISION" \
      --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false . 2>&1) || { echo "$log" >&2; exit 1; }
  done
  rm -rf "${out:?}/$name"
  log=$(buildah manifest push --all "$name" "oci:$out/$name:$VERSION" 2>&1) || { echo "$log" >&2; exit 1; }
  for platform in ${PLATFORMS//,/ }; do
    install -m 644 "$files/${platform#linux/}/$name/usr/share/sbom/$name.spdx.json" "$out/${name}_linux_${platform#linux/}.spdx.json"
  done
  printf '    %-30s %s\n' "$name" "$(grep -o 'sha256:[0-9a-f]*' "$out/$name/index.json")"
done
