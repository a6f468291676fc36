// Package release tests what a release consists of as those get it who download it: images, packages.
// Its tests run make, and are behind the build tag e2e (make e2e-release).
package release
