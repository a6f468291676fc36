package vsphere_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
)

// secrets is a cluster with one Secret.
type secrets struct {
	cloud.Kube
	data map[string][]byte
}

func (s secrets) WatchSecret(ctx context.Context, _, _ string, on func(map[string][]byte)) error {
	on(s.data)
	<-ctx.Done()
	return nil
}

// The manager asks whether the cloud is ready before it runs what watches the Secret.
func TestReadyWithASecret(t *testing.T) {
	v := newVCenter(t)
	host, port, err := net.SplitHostPort(v.Address())
	if err != nil {
		t.Fatal(err)
	}
	access, file := v.Access(), filepath.Join(t.TempDir(), "cloud.conf")
	conf := fmt.Sprintf("global:\n  secretName: s\n  secretNamespace: n\nvcenter:\n  a:\n    server: %q\n    port: %s\n    thumbprint: %q\n", host, port, access["thumbprint"])
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kube := range []secrets{
		{data: map[string][]byte{host + ".username": []byte(access["user"]), host + ".password": []byte(access["password"])}}, {},
	} {
		p, warnings, err := vsphere.New(t.Context(), file, cloud.Options{Kube: kube})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, %q", err, warnings)
		}
		if err := p.Ready(t.Context()); (err == nil) != (kube.data != nil) {
			t.Errorf("with %d keys: %v", len(kube.data), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Run(ctx); err != nil { // it ends the session
			t.Error(err)
		}
	}
}
