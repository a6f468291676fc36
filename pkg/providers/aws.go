//go:build !no_aws

package providers

import (
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws"
)

func addAWS(all map[string]cloud.Factory) { all[aws.Name] = aws.New }
