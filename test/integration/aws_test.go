package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

const (
	awsAccount = "111122223333"
	awsRegion  = "eu-central-1"
)

// startAWS starts a simulated AWS, for binaries that c starts: as an instance's role, with the rights that ship.
func (c *cluster) startAWS() *ec2.Region {
	c.t.Helper()
	_, region := c.simulateAWS()
	return region
}

// simulateAWS is startAWS for who needs the simulator, too.
func (c *cluster) simulateAWS() (*awssim.Sim, *ec2.Region) {
	c.t.Helper()
	sim, err := awssim.Start(awssim.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(sim.Close)
	actions, err := manifests.IAMActions()
	if err != nil {
		c.t.Fatal(err)
	}
	region := sim.EC2(awsAccount, awsRegion)
	self := region.AddInstance(ec2.Instance{Tags: map[string]string{"kubernetes.io/cluster/c": "owned"}})
	sim.SetInstance(awsAccount, awsRegion, self.ID)
	sim.SetInstanceRole(sim.AddRole(awssim.Principal{Account: awsAccount, Name: "ccm", Actions: actions}))
	c.env = append(sim.Env(), "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION=",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
	return sim, region
}

// registerAll has the API server ask p's webhooks, as they register themselves.
func (c *cluster) registerAll(p *process) {
	c.t.Helper()
	ca, err := os.ReadFile(filepath.Join(p.certDir, "tls.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	o := registration.NewOptions()
	o.URL, o.FailurePolicies, o.Webhooks = "https://"+p.webhook.address, []string{"Fail"}, hosted.All()
	o.Environment.Provider = &cloud.Provider{}
	for i := range o.Webhooks {
		o.Webhooks[i].MatchConditions = nil // they are the provider's, which is in the binary
	}
	m, v := registration.Configurations(o, ca)
	api := c.client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Create(c.t.Context(), m, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := api.MutatingWebhookConfigurations().Delete(context.Background(), m.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
	if _, err := api.ValidatingWebhookConfigurations().Create(c.t.Context(), v, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := api.ValidatingWebhookConfigurations().Delete(context.Background(), v.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
}

// The webhooks serve AWS: a PersistentVolume of EBS gets its zone, and a Service is judged by AWS' annotations.
func TestWebhooksOnAWS(t *testing.T) {
	c := newCluster(t)
	region := c.startAWS()
	p := c.launchOn([]string{"--cloud-provider=aws"}, "--webhooks=*", "--leader-elect=false", "--configure-cloud-routes=false")
	p.wait("/readyz", http.StatusOK)
	p.webhook.wait("/readyz", http.StatusOK)
	c.registerAll(p)
	try := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for source, volume := range map[string]corev1.PersistentVolumeSource{
		"CSI":     {CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: region.AddVolume(ec2.Volume{Zone: awsRegion + "b"}).ID}},
		"in-tree": {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: region.AddVolume(ec2.Volume{Zone: awsRegion + "b"}).ID}},
	} {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeSource: volume}}
		eventually.Met(t, func() string { // the API server takes a moment to take notice
			got, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, try)
			if err != nil || got.Labels[corev1.LabelTopologyZone] != awsRegion+"b" || got.Labels[corev1.LabelTopologyRegion] != awsRegion || got.Spec.NodeAffinity == nil {
				return source + ": " + errorText(err)
			}
			return ""
		})
	}
	service := func(value string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled": value}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	eventually.Met(t, func() string {
		_, err := c.client.CoreV1().Services("default").Create(t.Context(), service("maybe"), try)
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cross-zone-load-balancing-enabled") {
			return "a Service that AWS' provider refuses: " + errorText(err)
		}
		return ""
	})
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), service("true"), try); err != nil {
		t.Errorf("a Service that is right: %v", err)
	}
}
