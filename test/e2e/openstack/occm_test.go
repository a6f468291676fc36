//go:build e2e && occm

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
)

var occmPath = flag.String("occm", "", "the binary of openstack-cloud-controller-manager")

// workers is how many Services either manager works on at a time.
const workers = 3

// swap is a cluster that is handed from one manager to the other and back.
type swap struct {
	*cluster
	kinds   kinds
	place   *play.Place
	servers []server
	conf    string // of either manager
	manager *running
	gone    int // the Node that has left, -1 for none
}

func newSwap(t *testing.T, k kinds) *swap {
	t.Helper()
	if *occmPath == "" {
		t.Fatal("-occm is not given: make e2e-openstack OCCM=PATH")
	}
	c := newCluster(t)
	s := &swap{cluster: c, kinds: k, servers: c.nodes(3), gone: -1}
	c.label(s.servers[1].name, "pool", "web")
	s.place = c.cloud.place(s.servers)
	c.cloud.userMade(t, s.place.Symbols)
	s.place.Symbols.Set("tls", c.certificate())
	text, err := s.place.Symbols.Expand(k.conf)
	if err != nil {
		t.Fatal(err)
	}
	s.conf = c.userConf() + text
	return s
}

// userConf is the beginning of a cloud.conf with a user's login: for TLS, Octavia gets itself a token by the caller's.
// And with patience: OCCM makes another load balancer when the answer to the first call is late.
func (c *cluster) userConf() string {
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = %s\nuser-id = %s\npassword = %s\ntenant-id = %s\n[Metadata]\nrequest-timeout = 15m\n",
		c.proxy.authURL, c.cloud.region, c.cloud.member.userID, memberPassword, c.cloud.member.projectID)
}

// certificate stores a container with a certificate in Barbican and returns its reference.
func (c *cluster) certificate() string {
	c.t.Helper()
	certificate, key := selfSigned(c.t)
	barbican := c.cloud.member.keyManager
	made, err := containers.Create(c.t.Context(), barbican, containers.CreateOpts{Type: containers.CertificateContainer, Name: "e2e-swap", SecretRefs: []containers.SecretRef{
		{Name: "certificate", SecretRef: c.cloud.secret(c.t, "e2e-swap-certificate", certificate).SecretRef},
		{Name: "private_key", SecretRef: c.cloud.secret(c.t, "e2e-swap-key", key).SecretRef},
	}}).Extract()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cloud.cleanUp(c.t, "container", func(ctx context.Context) error {
		return containers.Delete(ctx, barbican, path.Base(made.ContainerRef)).ExtractErr()
	})
	return made.ContainerRef
}

func (c *cluster) label(node, key, value string) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if _, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// running is either manager.
type running struct {
	s    *swap
	name string
	stop func()
	kill func()
}

// startOCCM runs openstack-cloud-controller-manager with all its rights.
func (s *swap) startOCCM() *running {
	s.t.Helper()
	kubeconfig := path.Join(s.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, s.plane.Config); err != nil {
		s.t.Fatal(err)
	}
	m, err := differential.Start(s.t.Context(), differential.Options{
		Binary: *occmPath, Kubeconfig: kubeconfig, CloudConf: writeConf(s.t, s.conf), Cloud: "openstack", Workers: workers,
		Args: append([]string{"--cluster-name=" + clusterName}, s.kinds.flags...),
		Env:  []string{"OCCM_WAIT_LB_ACTIVE_STEPS=40"}, // hours: a busy Octavia is no failure here
	})
	if err != nil {
		s.t.Fatal(err)
	}
	stopped := false
	end := func() {
		s.t.Helper()
		if stopped {
			return
		}
		stopped = true
		if err := m.Stop(); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(func() {
		end()
		if s.t.Failed() {
			lines := strings.Split(strings.TrimSpace(m.Log()), "\n")
			s.t.Logf("the end of OCCM's log:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	kill := func() {
		stopped = true
		m.Kill()
	}
	return &running{s: s, name: "OCCM", stop: end, kill: kill}
}

// startOurs runs the binary as users do, with the flags that ship.
func (s *swap) startOurs() *running {
	s.t.Helper()
	m := s.startDefault(s.conf, s.kinds.flags...)
	return &running{s: s, name: "ours", stop: m.stop}
}

// create creates the Services of the kinds that join no other's load balancer.
func (s *swap) create() { s.createSome(false) }

// createSome creates those of the kinds that join another's load balancer, or the others.
func (s *swap) createSome(joining bool) (made []kind) {
	s.t.Helper()
	for i, k := range s.kinds.list {
		if (k.joins != "") != joining {
			continue
		}
		service, err := k.service().Object(k.name, i, s.place.Symbols)
		if err != nil {
			s.t.Fatal(err)
		}
		s.namespace(k.name)
		if joining {
			owner, err := s.client.CoreV1().Services(k.joins).Get(s.t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				s.t.Fatal(err)
			}
			annotate(service, annotationPrefix+"load-balancer-id", owner.Annotations[annotationPrefix+"load-balancer-id"])
		}
		if _, err := s.client.CoreV1().Services(k.name).Create(s.t.Context(), service, metav1.CreateOptions{}); err != nil {
			s.t.Fatalf("%s: %v", k.name, err)
		}
		made = append(made, k)
	}
	return made
}

// make creates the Services of the kinds, those that join another's load balancer after the others.
func (s *swap) make(by *running) {
	s.t.Helper()
	for _, joining := range []bool{false, true} {
		s.ensured(by, s.createSome(joining))
	}
}

func (c *cluster) namespace(name string) {
	c.t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Fatal(err)
	}
}

// ensured waits until the manager says of each Service, since forgetEvents, that it has its load balancer.
func (s *swap) ensured(by *running, list []kind) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s has ensured %d Services", by.name, len(list)), func(ctx context.Context) error {
		var missing []string
		for _, k := range list {
			events, err := s.client.CoreV1().Events(k.name).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			has := func(reason string) bool {
				return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == reason })
			}
			service, err := s.client.CoreV1().Services(k.name).Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(service.Status.LoadBalancer.Ingress) > 0 && has("EnsuredLoadBalancer") {
				continue
			}
			text := k.name
			for _, e := range events.Items {
				if e.Type == corev1.EventTypeWarning {
					text += fmt.Sprintf(" (%s: %s)", e.Reason, e.Message)
				}
			}
			missing = append(missing, text)
		}
		if len(missing) > 0 {
			return fmt.Errorf("without: %s", strings.Join(missing, "\n  "))
		}
		return nil
	})
}

// forgetEvents removes the events of the kinds.
func (s *swap) forgetEvents() {
	s.t.Helper()
	for _, k := range s.kinds.list {
		if err := s.client.CoreV1().Events(k.name).DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// published is what the Services' users see.
func (s *swap) published() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, k := range s.kinds.list {
		service, err := s.client.CoreV1().Services(k.name).Get(s.t.Context(), "a", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // deleted
		}
		if err != nil {
			s.t.Fatal(err)
		}
		var text []string
		for _, in := range service.Status.LoadBalancer.Ingress {
			mode := ""
			if in.IPMode != nil {
				mode = string(*in.IPMode)
			}
			text = append(text, fmt.Sprintf("%s%s %s", in.IP, in.Hostname, mode))
		}
		for _, key := range []string{"load-balancer-id", "load-balancer-address"} {
			text = append(text, key+"="+service.Annotations[annotationPrefix+key])
		}
		out[k.name] = strings.Join(text, " ")
	}
	return out
}

// handed hands the cluster over and checks that nothing changes but what may.
func (s *swap) handed(what string, start func() *running, may *regexp.Regexp) *running {
	s.t.Helper()
	before, published := s.settled(), s.published()
	s.forgetEvents()
	mark := s.proxy.mark()
	m := start()
	s.ensured(m, s.kinds.list)
	after := s.settled()
	changes := slices.DeleteFunc(mutations(s.proxy.since(mark)), func(c call) bool { return may.MatchString(c.method+" "+c.path) || m.meantCall(c) })
	m.leaveMeant(before, after)
	if len(changes) > 0 {
		s.t.Errorf("%s made %d calls that change the cloud:\n%s", what, len(changes), list(changes))
	}
	if diff := cmp.Diff(before, after); diff != "" {
		s.t.Errorf("%s changed the cloud (-before +after):\n%s", what, diff)
	}
	if diff := cmp.Diff(published, s.published()); diff != "" {
		s.t.Errorf("%s changed what is published (-before +after):\n%s", what, diff)
	}
	return m
}

// leaves takes a Node away and waits until the members are right. Nothing else may change.
func (s *swap) leaves(by *running, node int) {
	s.t.Helper()
	before := s.settled()
	if err := s.client.CoreV1().Nodes().Delete(s.t.Context(), s.servers[node].name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.membersAre(node)
	after := s.settled()
	for _, all := range []inventory{before, after} {
		maps.DeleteFunc(all, func(id string, _ map[string]any) bool { return strings.Contains(id, "/members/") })
		for id, o := range all {
			if strings.HasPrefix(id, "ports/") {
				delete(o, "security_groups")
				delete(o, "tags")
			}
			delete(o, "members")
		}
	}
	by.leaveMeant(before, after)
	if diff := cmp.Diff(before, after); diff != "" {
		s.t.Errorf("a Node that leaves changed more than members (-before +after):\n%s", diff)
	}
}

// joins brings a Node back and waits until the members are right.
func (s *swap) joins(node int) {
	s.t.Helper()
	s.register(s.servers[node], fmt.Sprintf("10.244.%d.0/24", node))
	s.membersAre(-1)
}

// membersAre waits until each pool of each kind has the right members: all Nodes that it may have, but one.
func (s *swap) membersAre(without int) {
	s.t.Helper()
	s.eventually("the members are right", func(ctx context.Context) error {
		o, err := s.cloud.octavia(ctx)
		if err != nil {
			return err
		}
		for _, k := range s.kinds.list {
			var want []string
			for i, server := range s.servers {
				if i != without && !k.none && (len(k.nodes) == 0 || slices.Contains(k.nodes, i)) {
					want = append(want, server.name+"="+server.address.String())
				}
			}
			n := 0
			for _, p := range o.pools {
				if !strings.HasSuffix(p.Name, "_kube_service_"+clusterName+"_"+k.name+"_a") {
					continue
				}
				n++
				var got []string
				for _, m := range o.members[p.ID] {
					got = append(got, m.Name+"="+m.Address)
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					return fmt.Errorf("pool %s has the members %v, want %v", p.Name, got, want)
				}
			}
			if n != max(len(k.ports), 1) {
				return fmt.Errorf("%s has %d pools, want %d", k.name, n, max(len(k.ports), 1))
			}
		}
		return nil
	})
}

// removeAll deletes the Services; the cloud then holds what it held before them.
func (s *swap) removeAll(before inventory) {
	s.t.Helper()
	s.delete()
	s.removeKept()
	s.deleted(before)
}

// removeKept waits for the floating IPs that Services leave behind on purpose, and removes them.
func (s *swap) removeKept() {
	s.t.Helper()
	for _, k := range s.kinds.list {
		if k.annotations[annotationPrefix+"keep-floatingip"] != "true" {
			continue
		}
		s.eventually("the floating IP of "+k.name+" is free", func(ctx context.Context) error {
			o, err := s.cloud.octavia(ctx)
			if err != nil {
				return err
			}
			for _, f := range o.fips {
				if strings.Contains(f.Description, " "+k.name+"/a ") && f.PortID == "" {
					return floatingips.Delete(ctx, s.cloud.member.network, f.ID).ExtractErr()
				}
			}
			return errors.New("there is none")
		})
	}
}

// delete deletes the Services and does not wait for anything.
func (s *swap) delete() {
	s.t.Helper()
	for _, k := range s.kinds.list {
		if err := s.client.CoreV1().Services(k.name).Delete(s.t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Nothing matches no call.
var nothing = regexp.MustCompile(`^$`)

// A cluster that openstack-cloud-controller-manager serves goes to ours, back, and again; what ours
// makes goes to it. Nothing in the cloud changes but our owner's tag.
func TestOCCM(t *testing.T) {
	for _, k := range allKinds() {
		t.Run(k.name, func(t *testing.T) {
			s := newSwap(t, k)
			empty := s.settled()
			m := s.startOCCM()
			s.initialized(s.servers)
			s.make(m)
			s.membersAre(-1)
			m.stop()

			m = s.handed("ours, on what OCCM made,", s.startOurs, ownerTag)
			s.leaves(m, 2)
			s.joins(2)
			m.stop()

			m = s.handed("OCCM, on what it made and ours has served,", s.startOCCM, nothing)
			s.leaves(m, 2)
			m.stop()

			m = s.handed("ours, again,", s.startOurs, nothing)
			s.joins(2) // not with OCCM: it looks at a new Node once, and then may not know its address yet
			s.removeAll(empty)
			s.make(m)
			s.membersAre(-1)
			m.stop()

			m = s.handed("OCCM, on what ours made,", s.startOCCM, nothing)
			s.leaves(m, 2)
			if m.cannotDelete() {
				m.stop()
				m = s.handed("ours, to delete them,", s.startOurs, nothing)
			}
			s.removeAll(empty)
			m.stop()
		})
	}
}
