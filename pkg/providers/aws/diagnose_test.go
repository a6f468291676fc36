package aws

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
)

// An emulator may know dry runs of reads, and carry out the rest: what is changed is tried at AWS' own endpoint alone.
func TestDiagnoseTriesChangesAtAWSAlone(t *testing.T) {
	for server, tried := range map[string]bool{"AmazonEC2": true, "amazon.com": false, "": false} {
		t.Run(server, func(t *testing.T) {
			c := apitest.Start(t)
			target, err := url.Parse(c.URL())
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
				ModifyResponse: func(r *http.Response) error { r.Header.Set("Server", server); return nil },
			})
			t.Cleanup(proxy.Close)
			t.Setenv("AWS_ENDPOINT_URL", proxy.URL)
			client, cfg := c.Client("[Global]\nRegion = "+apitest.Region+"\nKubernetesClusterID = blue\nVPC = "+c.VPC.ID+"\n", cloud.Options{})
			id := newIdentity(client, &cfg.Global)
			found, err := diagnose(client, &cfg.Global, id, newLoadBalancers(client, &cfg.Global, id.cluster, timing{}).network)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			actions := c.Actions()
			if got := slices.Contains(actions, "CreateSecurityGroup"); got != tried || !slices.Contains(actions, "DescribeSecurityGroups") {
				t.Errorf("it sent %q, want changes: %v", actions, tried)
			}
			if told := slices.ContainsFunc(found.Unseen, func(s string) bool { return strings.Contains(s, "not AWS' own") }); told == tried {
				t.Errorf("not looked at: %q", found.Unseen)
			}
		})
	}
}
