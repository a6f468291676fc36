//go:build no_aws

package providers

import "github.com/isthmus-cloud/isthmus/pkg/cloud"

//nolint:unused // as in aws.go
func addAWS(map[string]cloud.Factory) {}
