package doctor

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vspheresim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// instead replaces a text of a configuration, which must be there.
func instead(old, next string) func(*set, string) string {
	return func(s *set, conf string) string {
		s.t.Helper()
		if !strings.Contains(conf, old) {
			s.t.Fatalf("%q is not in\n%s", old, conf)
		}
		return strings.Replace(conf, old, next, 1)
	}
}

const (
	onVSphere    = "vsphere"
	onSupervisor = "vsphere-paravirtual"
)

// faultsOfVSphere are those that only vSphere can have, or its mode in guest clusters of a Supervisor.
var faultsOfVSphere = []fault{
	{name: "the datacenter does not exist", only: onVSphere, check: "cloud", object: "datacenter DC9", message: "shows 0 of that name", code: 1, conf: instead("global:\n", "global:\n  datacenters: [DC0, DC9]\n")},
	{name: "the category of zones does not exist", only: onVSphere, check: "cloud", object: "categories nowhere and", message: "has none of that name", code: 1, conf: instead("zone: k8s-zone", "zone: nowhere")},
	{name: "the category of regions does not exist", only: onVSphere, check: "cloud", object: "and nowhere", message: "Nodes are not initialized", code: 1, conf: instead("region: k8s-region", "region: nowhere")},
	{name: "no host has a tag of a region", only: onVSphere, check: "cloud", object: "and of-no-host", message: "no host that the user sees", code: 1, conf: instead("region: k8s-region", "region: of-no-host"), cluster: func(s *set) {
		s.must(s.VSphere.Attach(s.t.Context(), &vspheresim.Tag{Path: "/DC1/datastore/LocalDS_0", Category: "of-no-host", Name: "region"}))
	}},
	{name: "the user lacks a privilege", only: onVSphere, check: "cloud", object: "group-d1", message: "lacks there Cns.Searchable", code: 1, cluster: func(s *set) {
		s.lie("<HasPrivilegeOnEntities ", func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			answer := &changed{ResponseWriter: rw, old: "<privId>Cns.Searchable</privId><isGranted>true<", next: "<privId>Cns.Searchable</privId><isGranted>false<"}
			next.ServeHTTP(answer, r)
		})
	}},
	{name: "tags may not be read", only: onVSphere, check: "cloud", object: "tags", message: "403", code: 1, cluster: func(s *set) {
		s.t.Cleanup(s.VSphere.Lie(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/tagging/") {
				http.Error(rw, "no", http.StatusForbidden)
				return
			}
			next.ServeHTTP(rw, r)
		}))
	}},
	{name: "the Secret with the password does not exist", only: onVSphere, check: "credentials", object: onVSphere, message: "Secret kube-system/nowhere does not exist", code: 1, conf: instead("global:\n", "global:\n  secretName: nowhere\n  secretNamespace: kube-system\n")},

	{name: "a key of cloud.conf is misspelled, which is refused", only: onSupervisor, check: "cloud-config", message: "zz", code: 1, conf: func(s *set, conf string) string { return strings.Replace(conf, s.key, "zz"+s.key, 1) }},
	{name: "the owner reference is missing", only: onSupervisor, check: "cloud-config", message: "owner reference", code: 1, conf: instead("ownerref.json", "nowhere.json")},
	{name: "the version of VM Operator is not served", only: onSupervisor, check: "credentials", object: onSupervisor, message: "does the Supervisor serve virtualmachines of vmoperator.vmware.com/v1alpha5", code: 1,
		conf: func(s *set, conf string) string { // which has but one family
			return instead("clusterIPFamily: ipv4ipv6", "clusterIPFamily: ipv4")(s, instead("v1alpha6", "v1alpha5")(s, conf))
		}},
	{name: "the namespace in the Supervisor is another's", only: onSupervisor, check: "credentials", object: onSupervisor, message: "lacks a right", code: 1, conf: func(s *set, conf string) string {
		return s.credentials(conf, "namespace", "default")
	}},
	{name: "the Supervisor's authority is another one", only: onSupervisor, check: "credentials", object: onSupervisor, message: "certificate", code: 1, conf: func(s *set, conf string) string {
		return s.credentials(conf, "ca.crt", string(s.authority(time.Hour)))
	}},
	{name: "VirtualMachineServices may not be made", only: onSupervisor, check: "cloud", object: "virtualmachineservices", message: "may not create", code: 1, cluster: guestWithout("virtualmachineservices", "create")},
	{name: "a single VirtualMachine may not be read", only: onSupervisor, check: "cloud", object: "virtualmachines", message: "may not get", code: 1, cluster: guestWithout("virtualmachines", "get")},
	{name: "routes may not be deleted in the Supervisor", only: onSupervisor, check: "cloud", object: "staticroutes", message: "may not delete", code: 1, cluster: guestWithout("staticroutes", "delete")},
	{name: "the token for the Supervisor is not renewed", only: onSupervisor, check: "cloud", object: "token for Supervisor", message: "the file has no newer one", code: 0, conf: func(s *set, conf string) string {
		as, err := s.ServiceAccountConfig(s.t.Context(), s.Supervisor.Namespace, "guest-ccm", 10*time.Minute)
		s.must(err)
		return s.credentials(conf, "token", as.BearerToken)
	}},
}

// lie has requests with a text in their bodies answered in another way.
func (s *set) lie(text string, answer vspheresim.Answerer) {
	s.t.Cleanup(s.VSphere.Lie(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && bytes.Contains(body, []byte(text)) {
			answer(rw, r, next)
			return
		}
		next.ServeHTTP(rw, r)
	}))
}

// changed replaces a text in an answer.
type changed struct {
	http.ResponseWriter
	old, next string
}

func (c *changed) Write(b []byte) (int, error) {
	_, err := c.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(c.old), []byte(c.next)))
	return len(b), err
}

// WriteHeader implements http.ResponseWriter. The length is another one.
func (c *changed) WriteHeader(status int) {
	c.Header().Del("Content-Length")
	c.ResponseWriter.WriteHeader(status)
}

// credentials makes of a configuration one whose directory of credentials has another file.
func (s *set) credentials(conf, file, content string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	for _, name := range []string{"token", "ca.crt", "namespace"} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		s.must(err)
		if name == file {
			data = []byte(content)
		}
		s.must(os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return instead("credentialsDirectory: "+s.dir, "credentialsDirectory: "+dir)(s, conf)
}

// guestWithout takes a right in the Supervisor from the guest cluster's account until the test ends.
func guestWithout(resource, verb string) func(*set) {
	return func(s *set) {
		const name = "isthmus-cloud-controller-manager"
		roles := s.Client.RbacV1().Roles(s.Supervisor.Namespace)
		edit := func(ctx context.Context, change func(*rbacv1.PolicyRule)) error {
			role, err := roles.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for i := range role.Rules {
				if role.Rules[i].Resources[0] == resource {
					change(&role.Rules[i])
				}
			}
			_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
			return err
		}
		s.must(edit(s.t.Context(), func(r *rbacv1.PolicyRule) {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == verb })
		}))
		s.undo(func(ctx context.Context) error {
			return edit(ctx, func(r *rbacv1.PolicyRule) { r.Verbs = append(r.Verbs, verb) })
		})
	}
}
