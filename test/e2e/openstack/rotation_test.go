//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"k8s.io/apimachinery/pkg/fields"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rotated application credential is taken from cloud.conf without a restart: the next
// Service is served although Keystone has forgotten the old one, and no reconcile failed.
func TestCredentialRotation(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	nodes := c.nodes(1)
	old, err := c.cloud.newCredential(ctx, "old", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := c.startManagerWith(confFor(c.throughProxy(old), c.cloud.region))
	c.initialized(nodes)
	c.service("before", annotated(map[string]string{annotationInternal: "true"}), tcp(80))
	c.address("before")

	fresh, err := c.cloud.newCredential(ctx, "fresh", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.conf, []byte(confFor(c.throughProxy(fresh), c.cloud.region)), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	c.eventually("the changed file is read", m.says("credentials changed on disk and are in use now"))
	t.Logf("the new credential is in use after %.1f s", time.Since(begin).Seconds())
	if err := applicationcredentials.Delete(ctx, c.cloud.member.identity, c.cloud.member.userID, old.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	c.service("after", annotated(map[string]string{annotationInternal: "true"}), tcp(80))
	c.address("after")
	c.remove("after")
	c.remove("before")

	events, err := c.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("type", "Warning").String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		t.Errorf("a warning about %s: %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	for _, line := range m.logged("") {
		if strings.HasPrefix(line, "E") {
			t.Errorf("an error is logged: %s", line)
		}
		if strings.Contains(line, old.Secret) || strings.Contains(line, fresh.Secret) {
			t.Errorf("the log shows a secret: %s", line)
		}
	}
	c.nothingLeft()
}
