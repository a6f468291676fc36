package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const conf = "[Global]\nRegion = eu-central-1\n"

func addInstances(c *apitest.Cloud, n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("i-%08x", i+1))
		c.AddInstance(ec2.Instance{ID: ids[i]})
	}
	return ids
}

func TestRegionIsFoundWhereNothingSaysIt(t *testing.T) {
	cloudAPI := apitest.Start(t)
	for name, tt := range map[string]struct {
		conf, env, want string
	}{
		"cloud.conf":  {"[Global]\nRegion = eu-west-1\n", "eu-north-1", "eu-west-1"},
		"a zone":      {"[Global]\nZone = eu-west-3a\n", "eu-north-1", "eu-west-3"},
		"environment": {"", "eu-north-1", "eu-north-1"},
		"machine":     {"", "", apitest.Region},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_REGION", tt.env)
			c, _ := cloudAPI.Client(tt.conf, cloud.Options{})
			if got, err := c.Region(t.Context()); got != tt.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestMachineThatIsNotKnown(t *testing.T) {
	cloudAPI := apitest.Start(t)
	cloudAPI.AddFault(apitest.Fault{Service: "imds", Status: http.StatusForbidden})
	c, _ := cloudAPI.Client("", cloud.Options{})
	const want = "find the region: the instance metadata service does not tell what this machine is"
	if _, err := c.Region(t.Context()); cloud.KindOf(err) != cloud.KindUnavailable || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "set Region in [Global] of cloud.conf, or AWS_REGION") {
		t.Errorf("%s: %v", cloud.KindOf(err), err)
	}
	if _, _, err := c.Instances(t.Context()); cloud.KindOf(err) != cloud.KindUnavailable {
		t.Errorf("%v", err)
	}
	if n := len(cloudAPI.Requests()); n != 0 {
		t.Errorf("EC2 was asked %d times", n)
	}
}

func TestEndpointsOfCloudConf(t *testing.T) {
	cloudAPI := apitest.Start(t)
	metadata, err := url.Parse(cloudAPI.URL())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan *http.Request, 1)
	mux := http.NewServeMux()
	mux.Handle("/latest/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(metadata) }})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- r
		_, _ = fmt.Fprint(w, "<DescribeInstancesResponse></DescribeInstancesResponse>")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	override := func(n, service string) string {
		return "[ServiceOverride \"" + n + "\"]\nService = " + service + "\nRegion = " + apitest.Region + "\nURL = " + s.URL + "\nSigningRegion = other-region\nSigningName = other-name\n"
	}
	c, _ := cloudAPI.Client(override("1", "EC2")+override("2", "ec2imds"), cloud.Options{UserAgent: "extra/2 isthmus-test/v1"})
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-asked
	if agent := r.UserAgent(); r.Form.Get("MaxResults") != "5" || !strings.Contains(agent, "isthmus-test/v1") || !strings.Contains(agent, "extra/2") {
		t.Errorf("%s asked for %v", agent, r.Form)
	}
	if signed := r.Header.Get("Authorization"); !strings.Contains(signed, "/other-region/other-name/") {
		t.Errorf("it is signed for %s", signed)
	}
}

func TestCheckSaysWhyTheCloudCannotBeUsed(t *testing.T) {
	cloudAPI := apitest.Start(t)
	c, _ := cloudAPI.Client(conf, cloud.Options{})
	cloudAPI.Fail("DescribeInstances", apitest.Fault{Status: http.StatusUnauthorized, Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials"})
	if err := c.Check(t.Context()); cloud.KindOf(err) != cloud.KindDenied || !strings.Contains(err.Error(), "AuthFailure") {
		t.Errorf("%v", err)
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("without instances: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	c, _ = cloudAPI.Client(conf, cloud.Options{})
	if err := c.Check(t.Context()); cloud.KindOf(err) != cloud.KindDenied || !strings.Contains(err.Error(), "attach an instance profile") {
		t.Errorf("without credentials: %s: %v", cloud.KindOf(err), err)
	}
}

func TestListsHaveAllPages(t *testing.T) {
	cloudAPI := apitest.Start(t)
	ids := addInstances(cloudAPI, 2500)
	c, _ := cloudAPI.Client(conf, cloud.Options{})
	found, scope, err := c.Instances(t.Context())
	if err != nil || len(found) != len(ids) || scope != apitest.Scope || found[2499].Scope != apitest.Scope {
		t.Errorf("%d instances in %q, %v", len(found), scope, err)
	}
	if got := cloudAPI.Actions(); !slices.Equal(got, []string{"DescribeInstances", "DescribeInstances", "DescribeInstances"}) {
		t.Errorf("asked %q", got)
	}
	cloudAPI.Fail("DescribeInstances", apitest.Body("<DescribeInstancesResponse><nextToken>t</nextToken></DescribeInstancesResponse>"),
		apitest.Body("<DescribeInstancesResponse><nextToken>t</nextToken></DescribeInstancesResponse>"))
	if found, _, err := c.Instances(t.Context()); err == nil || found != nil || cloud.KindOf(err) != cloud.KindUnknown {
		t.Errorf("pages that repeat themselves: %d instances, %v", len(found), err)
	}
	cloudAPI.Fail("DescribeInstances", apitest.Body("<DescribeInstancesResponse><nextToken>1000</nextToken></DescribeInstancesResponse>"),
		apitest.Fault{Status: 503, Code: "Unavailable"})
	if found, _, err := c.Instances(t.Context()); cloud.KindOf(err) != cloud.KindUnavailable || found != nil {
		t.Errorf("a page that fails: %d instances, %v", len(found), err)
	}
}

func TestInstanceIsReadDirectly(t *testing.T) {
	cloudAPI := apitest.Start(t)
	c, _ := cloudAPI.Client(conf, cloud.Options{})
	if _, err := c.Instance(t.Context(), "i-0000ffff"); !cloud.IsNotFound(err) || cloud.ScopeOf(err) != "account unknown in eu-central-1" {
		t.Errorf("scope %q of %v", cloud.ScopeOf(err), err)
	}
	addInstances(cloudAPI, 1)
	_ = cloudAPI.Requests()
	for _, want := range [][]string{{"DescribeInstances", "DescribeInstances"}, {"DescribeInstances"}} { // whose the key is, is asked once
		if _, err := c.Instance(t.Context(), "i-0000ffff"); !cloud.IsNotFound(err) || cloud.ScopeOf(err) != apitest.Scope {
			t.Errorf("scope %q of %v", cloud.ScopeOf(err), err)
		}
		if got := cloudAPI.Actions(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	i, err := c.Instance(t.Context(), "i-00000001")
	if err != nil || aws.ToString(i.InstanceId) != "i-00000001" || i.Scope != apitest.Scope {
		t.Errorf("%+v, %v", i, err)
	}
	for name, body := range map[string]string{
		"none":        "<DescribeInstancesResponse></DescribeInstancesResponse>",
		"another one": "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-00000002</instanceId></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
	} {
		cloudAPI.Fail("DescribeInstances", apitest.Body(body))
		if i, err := c.Instance(t.Context(), "i-00000001"); i != nil || cloud.KindOf(err) != cloud.KindUnknown || err == nil {
			t.Errorf("an answer about %s: %+v, %v", name, i, err)
		}
	}
}

func TestVolumesZonesAndTopology(t *testing.T) {
	cloudAPI := apitest.Start(t)
	cloudAPI.EC2.AddVolume(ec2.Volume{ID: "vol-00000001", Zone: "eu-central-1a"})
	ids := append(addInstances(cloudAPI, 1), cloudAPI.AddInstance(ec2.Instance{ID: "i-00000002", NetworkNodes: []string{"nn-1", "nn-2"}}).ID)
	c, _ := cloudAPI.Client(conf, cloud.Options{})
	if v, err := c.Volumes(t.Context(), api.Filter("volume-id", "vol-00000001", "vol-00000002")); err != nil || len(v) != 1 || aws.ToString(v[0].AvailabilityZone) != "eu-central-1a" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := c.Volume(t.Context(), "vol-00000001"); err != nil || aws.ToString(v.VolumeId) != "vol-00000001" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := c.Volume(t.Context(), "vol-00000002"); !cloud.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if z, err := c.ZoneIDs(t.Context()); err != nil || len(z) != 3 || z["eu-central-1b"] != "euc1-az3" {
		t.Errorf("%v, %v", z, err)
	}
	if n, err := c.NetworkNodes(t.Context(), ids); err != nil || len(n) != 1 || !slices.Equal(n["i-00000002"], []string{"nn-1", "nn-2"}) {
		t.Errorf("%v, %v", n, err)
	}
}
