package api

import (
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// ScopeOf is where sc's answers about servers come from: one project at one endpoint. Nova
// says "not found" of a server of another project or region in the very words that it has
// for one that is gone.
func ScopeOf(sc *gophercloud.ServiceClient) string {
	project := ProjectOf(sc)
	if project == "" {
		project = "unknown"
	}
	return "project " + project + " at " + withoutQuery(sc.Endpoint)
}

// ProjectOf is the ID of the project that sc's token is for, "" when that is not known.
func ProjectOf(sc *gophercloud.ServiceClient) string {
	if r, ok := sc.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			return p.ID
		}
	}
	return ""
}

// InScope adds to KindNotFound where that is so; other errors stay as they are.
func InScope(err error, scope string) error {
	if !cloud.IsNotFound(err) {
		return err
	}
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: err}
}
