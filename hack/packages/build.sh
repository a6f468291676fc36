#!/usr/bin/env bash
# build.sh FILES FOLDER: makes deb and rpm of the credential provider for each of PLATFORMS out of what
# hack/images/files.sh has put into FILES. The same files make the same packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
files=$1 out=$2
rm -rf "$out"
mkdir -p "$out"
config=$(mktemp) sbom=$(mktemp)
trap 'rm -f "$config" "$sbom"' EXIT
{
  echo "# What the package brings serves the registries of three clouds, as the node. Leave in what your nodes"
  echo "# have an identity for: isthmus-credential-provider config --registries=ecr --force --output=THIS-FILE"
  ${GO:-go} run ./cmd/credential-provider config --registries=ecr,acr,artifactregistry
} > "$config"
export VERSION SOURCE_DATE_EPOCH CONFIG=$config SBOM=$sbom
for platform in ${PLATFORMS//,/ }; do
  export ARCH=${platform#linux/} FILES=$files/${platform#linux/}/isthmus-credential-provider
  # That of the image has the CA certificates, too.
  bin/ship -binary "$FILES/isthmus-credential-provider" -version "$VERSION" -created "$SOURCE_DATE_EPOCH" -sbom "$sbom"
  for packager in deb rpm; do
    log=$(bin/nfpm package --config hack/packages/nfpm.yaml --packager "$packager" --target "$out/" 2>&1) || { echo "$log" >&2; exit 1; }
  done
done
cd "$out" && sha256sum -- * > SHA256SUMS && sed 's/^/    /' SHA256SUMS
