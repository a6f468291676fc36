package vsphere

import (
	"sync"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestLogoutWhileReading: a client that logs out while its reads are answered, as one that is stopped does, gets an answer to all, and
// so does the next one.
func TestLogoutWhileReading(t *testing.T) {
	v, err := New(t.Context(), t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c, err := govmomi.NewClient(t.Context(), v.server.URL, true)
		if err != nil {
			t.Fatal(err)
		}
		machines, err := view.NewManager(c.Client).CreateContainerView(t.Context(), c.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			var all sync.WaitGroup
			defer all.Wait()
			for range 4 {
				all.Go(func() {
					for range 50 {
						var found []mo.VirtualMachine
						if machines.Retrieve(t.Context(), []string{"VirtualMachine"}, []string{"summary"}, &found) != nil {
							return // logged out
						}
					}
				})
			}
			_ = c.Logout(t.Context())
		}()
		eventually.Received(t, "all is answered", answered)
	}
	v.Close()
}
