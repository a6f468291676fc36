// Tools module: what goes into images and packages beside the binary.
module github.com/isthmus-cloud/isthmus/hack/tools/ship

go 1.26.0

require (
	github.com/google/licenseclassifier/v2 v2.0.0
	github.com/spdx/tools-golang v0.5.7
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/sergi/go-diff v1.1.0 // indirect
)
