//go:build !no_aws

package providers

import (
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws"
)

//nolint:unused // All gets it with load balancers and routes
func addAWS(all map[string]cloud.Factory) { all[aws.Name] = aws.New }
