package vsphere_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// mount has a folder hold the data, in place of what it held, as kubelets do: all at once, by a link. nil removes all.
func mount(t *testing.T, folder string, data map[string][]byte) {
	t.Helper()
	version, err := os.MkdirTemp(folder, "..version")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "..data")
	for key, value := range data {
		if err := os.WriteFile(filepath.Join(version, key), value, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", key), filepath.Join(folder, key)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Base(version), link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
}

// told collects what Options.Reloaded is told.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (r *told) reloaded(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// next waits until something is told after the first n, and returns it.
func (r *told) next(t *testing.T, n int) error {
	t.Helper()
	eventually.Met(t, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.errs) <= n {
			return "nothing is told"
		}
		return ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[n]
}

// rotate changes the password at the vCenter, ends all sessions, and changes it by put; the provider goes on.
func rotate(t *testing.T, v *sim.VCenter, p *cloud.Provider, ref cloud.InstanceRef, put func(password string)) {
	t.Helper()
	if _, err := p.Instances.Get(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	v.SetPassword("n3w-s3cret")
	if err := v.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Instances.Get(t.Context(), ref); cloud.KindOf(err) != cloud.KindDenied || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with the former password: %v", err)
	}
	put("n3w-s3cret")
	eventually.NoError(t, func() error { _, err := p.Instances.Get(t.Context(), ref); return err })
}

func machine(t *testing.T, v *sim.VCenter) cloud.InstanceRef {
	t.Helper()
	m, err := v.MakeMachine(t.Context(), "node")
	if err != nil {
		t.Fatal(err)
	}
	return cloud.InstanceRef{NodeName: m.Name, ProviderID: "vsphere://" + m.UUID}
}

// Files of secretsDirectory are read again. While they are broken what they had last stays in use, and that is told once.
func TestSecretsDirectoryIsReadAgain(t *testing.T) {
	t.Parallel()
	v, folder, r := newVCenter(t), t.TempDir(), &told{}
	ref := machine(t, v)
	mount(t, folder, v.Secret(v.Password()))
	p, end := provide(t, v.ConfigBy("secretsDirectory: "+folder), cloud.Options{Reloaded: r.reloaded})
	defer end()
	rotate(t, v, p, ref, func(password string) { mount(t, folder, v.Secret(password)) })
	if err := r.next(t, 0); err != nil {
		t.Error(err)
	}
	mount(t, folder, nil)
	if err := r.next(t, 1); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("broken files are not told: %v", err)
	}
	if err := v.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Instances.Get(t.Context(), ref); err != nil {
		t.Errorf("with broken files: %v", err)
	}
	mount(t, folder, v.Secret("n3w-s3cret"))
	if err := r.next(t, 2); err != nil {
		t.Errorf("files that are right again: %v", err)
	}
}

// secret is a cluster with one Secret.
type secret struct {
	cloud.Kube
	on chan map[string][]byte
}

func (s secret) WatchSecret(ctx context.Context, _, _ string, on func(map[string][]byte)) error {
	for {
		select {
		case data := <-s.on:
			on(data)
		case <-ctx.Done():
			return nil
		}
	}
}

// A Secret that changes is taken over; one that is broken, or deleted, leaves the last credentials in use.
func TestSecretIsTakenOver(t *testing.T) {
	t.Parallel()
	v, kube, r := newVCenter(t), secret{on: make(chan map[string][]byte)}, &told{}
	ref := machine(t, v)
	p, end := provide(t, v.ConfigBy("secretName: s\n  secretNamespace: n"), cloud.Options{Kube: kube, Reloaded: r.reloaded})
	defer end()
	if want := (cloud.KubeObject{Kind: cloud.KubeSecret, Namespace: "n", Name: "s"}); len(p.KubeObjects) != 1 || p.KubeObjects[0] != want {
		t.Errorf("it asks for %+v, want %+v", p.KubeObjects, want)
	}
	kube.on <- v.Secret(v.Password())
	if err := r.next(t, 0); err != nil {
		t.Error(err)
	}
	rotate(t, v, p, ref, func(password string) { kube.on <- v.Secret(password) })
	for n, broken := range []map[string][]byte{nil, {}, {v.Host() + ".username": []byte("n3w-s3cret")}, {"another": []byte("n3w-s3cret")}} {
		kube.on <- broken
		if err := r.next(t, n+2); err == nil || strings.Contains(err.Error(), "n3w-s3cret") || !strings.Contains(err.Error(), "Secret n/s") {
			t.Errorf("%q: %v", broken, err)
		}
		if err := v.EndSessions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Instances.Get(t.Context(), ref); err != nil {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

// SKIP_NODE_DELETION keeps the Node of a machine that is gone, as with the existing manager.
func TestNodesAreKeptWhereTheEnvironmentSaysSo(t *testing.T) {
	v := newVCenter(t)
	p, end := provide(t, v.ConfigIPv4(), cloud.Options{})
	defer end()
	gone := cloud.InstanceRef{NodeName: "gone", ProviderID: "vsphere://0b1ee9c8-44ee-4a4f-9a0d-8d6d1d7b6a11"}
	if _, err := p.Instances.Get(t.Context(), gone); !cloud.IsNotFound(err) {
		t.Fatal(err)
	}
	t.Setenv("SKIP_NODE_DELETION", "false") // any value
	keeping, _, err := newProvider(t, v.ConfigIPv4(), cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keeping.Instances.Get(t.Context(), gone); err == nil || cloud.IsNotFound(err) || !strings.Contains(err.Error(), "SKIP_NODE_DELETION is set") {
		t.Error(err)
	}
	if i, err := keeping.Instances.Get(t.Context(), machine(t, v)); err != nil || i.Zone != sim.Zone {
		t.Errorf("one that is there: %+v, %v", i, err)
	}
}
