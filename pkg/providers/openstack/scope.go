package openstack

import (
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// scopeOf is where sc's answers about servers come from: one project at one endpoint. Nova
// says "not found" of a server of another project or region in the very words that it has
// for one that is gone.
func scopeOf(sc *gophercloud.ServiceClient) string {
	project := projectOf(sc)
	if project == "" {
		project = "unknown"
	}
	return "project " + project + " at " + withoutQuery(sc.Endpoint)
}

// projectOf is the ID of the project that sc's token is for, "" when that is not known.
func projectOf(sc *gophercloud.ServiceClient) string {
	if r, ok := sc.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			return p.ID
		}
	}
	return ""
}

// inScope adds to KindNotFound where that is so; other errors stay as they are.
func inScope(err error, scope string) error {
	if !cloud.IsNotFound(err) {
		return err
	}
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: err}
}
