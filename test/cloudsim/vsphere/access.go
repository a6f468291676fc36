package vsphere

import (
	"path/filepath"

	"github.com/vmware/govmomi/vim25/soap"
)

// Access is where the vCenter is, and how one logs in and knows it: server and port, user and password, ca (the file of its certificate)
// and thumbprint.
func (v *VCenter) Access() map[string]string {
	return map[string]string{
		"server": v.server.URL.Hostname(), "port": v.server.URL.Port(), "user": user, "password": password, "ca": filepath.Join(v.dir, "ca.pem"),
		"thumbprint": soap.ThumbprintSHA1(v.server.Certificate()),
	}
}
