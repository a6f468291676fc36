package watched_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follow runs an Object for a ConfigMap; end waits for its end.
func follow(t *testing.T, client kubernetes.Interface, name string) (o *watched.Object, end func()) {
	t.Helper()
	o = watched.New(watched.Target{client.CoreV1().RESTClient(), "configmaps", types.NamespacedName{Namespace: "default", Name: name}, &corev1.ConfigMap{}},
		func(err error) error { return fmt.Errorf("read it: %w", err) })
	if _, err := o.Get(); !errors.Is(err, watched.ErrNotRead) {
		t.Errorf("before it runs: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	return o, func() {
		t.Helper()
		cancel()
		if err := eventually.Received(t, "it ends", ended); err != nil {
			t.Error(err)
		}
	}
}

// TestObject: what one object is, and that it is away, and nothing of others.
func TestObject(t *testing.T) {
	client := controlplane.Start(t).Client
	maps := client.CoreV1().ConfigMaps("default")
	o, end := follow(t, client, "one")
	defer end()
	is := func(want string) {
		t.Helper()
		eventually.True(t, "it is "+want, func() bool {
			<-o.Changed
			obj, err := o.Get()
			if err != nil {
				return false
			}
			m, ok := obj.(*corev1.ConfigMap)
			return ok == (want != "") && (!ok || m.Name == "one" && m.Data["is"] == want)
		})
	}
	is("")
	for _, name := range []string{"other", "one"} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"is": "new"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	is("new")
	if _, err := maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"is":"changed"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	is("changed")
	if err := maps.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	is("")
}

// TestAPIServerAway: it is said why nothing was read, and the end does not wait.
func TestAPIServerAway(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	o, end := follow(t, client, "one")
	<-o.Changed
	if _, err := o.Get(); err == nil || !strings.HasPrefix(err.Error(), "read it: ") {
		t.Errorf("error %v", err)
	}
	end()
}
