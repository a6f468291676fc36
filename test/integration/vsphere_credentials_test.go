package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// The Secret that vsphere.conf names, where the ServiceAccount may read nothing else.
const vsphereSecret, vsphereSecretNamespace = "vsphere-cloud-secret", metav1.NamespaceDefault

// putVSphereSecret makes the Secret, or changes it.
func (c *cluster) putVSphereSecret(data map[string][]byte) {
	c.t.Helper()
	secrets := c.client.CoreV1().Secrets(vsphereSecretNamespace)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: vsphereSecret}, Data: data}
	_, err := secrets.Update(c.t.Context(), s, metav1.UpdateOptions{})
	if ignoreNotFound(err) == nil && err != nil {
		_, err = secrets.Create(c.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// joinVSphere makes a machine, and its Node as it joins.
func (c *cluster) joinVSphere(v *sim.VCenter, name string) sim.Machine {
	c.t.Helper()
	m, err := v.MakeMachine(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	c.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}}})
	return m
}

// wantInitialized waits for a Node's provider ID.
func (c *cluster) wantInitialized(m sim.Machine) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if id := c.nodes()[m.Name].Spec.ProviderID; id != "vsphere://"+m.UUID {
			return fmt.Sprintf("Node %s has the ID %q", m.Name, id)
		}
		return ""
	})
}

// A vCenter's password is changed, and the Secret that has it: the binary goes on without a restart, and no Node is deleted
// meanwhile. A Secret that is broken or deleted leaves the last credentials in use, which the log says, and it shows no password.
func TestPasswordOfVSphereChanges(t *testing.T) {
	c := newCluster(t)
	v, err := sim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	roles, err := apiclient.ProviderRoles([]cloud.KubeObject{{Kind: cloud.KubeSecret, Namespace: vsphereSecretNamespace, Name: vsphereSecret}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: manifests.ServiceAccount})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	c.putVSphereSecret(v.Secret(v.Password()))
	var machines []sim.Machine
	for n := range 3 {
		machines = append(machines, c.joinVSphere(v, fmt.Sprint("vs-", n)))
	}
	conf := write(t, "cloud.conf", v.ConfigBy("secretName: "+vsphereSecret+"\n  secretNamespace: "+vsphereSecretNamespace))
	p := c.launchOn([]string{"--cloud-provider=vsphere", "--cloud-config=" + conf}, "--leader-elect=false", "--configure-cloud-routes=false", "--node-monitor-period=200ms", "--v=2")
	p.wait("/readyz", http.StatusOK)
	for _, m := range machines {
		c.wantInitialized(m)
	}

	const password = "n3w-s3cret"
	v.SetPassword(password)
	before := v.Methods()["Login"]
	if err := v.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if v.Methods()["Login"] == before {
			return "nobody has tried to log in with the former password"
		}
		return ""
	})
	if n := len(c.nodes()); n != len(machines) {
		t.Errorf("%d Nodes while logins are refused, want %d", n, len(machines))
	}
	c.putVSphereSecret(v.Secret(password))
	if err := v.Delete(t.Context(), machines[2].UUID); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if n := len(c.nodes()); n != 2 {
			return fmt.Sprintf("%d Nodes, want 2: its machine is gone", n)
		}
		return ""
	})

	secrets := c.client.CoreV1().Secrets(vsphereSecretNamespace)
	c.putVSphereSecret(map[string][]byte{v.Host() + ".username": []byte(password)})
	p.wantMoreFailures(0)
	told := p.failures()
	if err := secrets.Delete(t.Context(), vsphereSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.wantMoreFailures(told)
	if err := v.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wantInitialized(c.joinVSphere(v, "vs-late"))
	log := p.end()
	for _, want := range []string{"Credentials taken over", "Credentials cannot be taken over, those before stay in use", "it does not have both", "Secret default/vsphere-cloud-secret does not exist"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(log, "s3cret") {
		t.Errorf("the log shows a password:\n%s", log)
	}
}

// failures are the attempts to take over credentials that have failed. A change may be told more than once.
func (p *process) failures() int {
	p.t.Helper()
	_, metrics := p.get("/metrics", "")
	n := 0
	if m := reloadFailures.FindStringSubmatch(metrics); m != nil {
		n, _ = strconv.Atoi(m[1]) // digits
	}
	return n
}

var reloadFailures = regexp.MustCompile(`(?m)^isthmus_cloud_credential_reloads_total\{.*result="failure".*\} (\d+)$`)

// wantMoreFailures waits until there are more than before.
func (p *process) wantMoreFailures(before int) {
	p.t.Helper()
	eventually.Met(p.t, func() string {
		if n := p.failures(); n <= before {
			return fmt.Sprintf("%d credentials could not be taken over, want more than %d", n, before)
		}
		return ""
	})
}
