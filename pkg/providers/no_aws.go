//go:build no_aws

package providers

import "github.com/isthmus-cloud/isthmus/pkg/cloud"

func addAWS(map[string]cloud.Factory) {}
