#!/usr/bin/env bash
# files.sh FOLDER: puts into FOLDER/ARCH/BINARY all that the image of that binary consists of, for
# each of PLATFORMS; PACKAGES of cmd/ are all there are, if not given. LDFLAGS, TAGS, VERSION and SOURCE_DATE_EPOCH are those of the Makefile, and
# bin/ship is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
for platform in ${PLATFORMS//,/ }; do
  arch=${platform#linux/}
  [ "linux/$arch" = "$platform" ] || { echo "images: $platform: images are for Linux: give PLATFORMS=linux/amd64,linux/arm64 or one of them" >&2; exit 1; }
  for package in ${PACKAGES:-cloud-controller-manager credential-provider}; do
    name=${package/#credential/isthmus-credential}
    root=$1/$arch/$name
    rm -rf "$root"
    mkdir -p "$root/etc/ssl/certs" "$root/usr/share/doc/isthmus" "$root/usr/share/sbom"
    GOOS=linux GOARCH=$arch ${GO:-go} build -buildvcs=false -tags "$TAGS" -ldflags "$LDFLAGS" -o "$root/$name" "./cmd/$package"
    bin/ship -binary "$root/$name" -version "$VERSION" -created "$SOURCE_DATE_EPOCH" -roots "$root/etc/ssl/certs/ca-certificates.crt" \
      -licenses "$root/usr/share/doc/isthmus/THIRD-PARTY.txt" -sbom "$root/usr/share/sbom/$name.spdx.json"
    install -m 644 LICENSE "$root/usr/share/doc/isthmus/"
  done
done
