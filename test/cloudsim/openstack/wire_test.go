package openstack_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// exchange is a request and the answer that a real Zed gave to it.
type exchange struct {
	name, method, path string // the path may hold {project}, {user}, {server}, {flavor}, {volume}
	header             map[string]string
	body               string
	status             int
	want               string            // the body; "" is not compared
	headers            map[string]string // of the answer
}

const (
	nova   = "/compute/v2.1"
	cinder = "/volume/v3/{project}"
	keys   = "/key-manager/v1"
)

var asJSON = map[string]string{"Content-Type": "application/json"}

// zed holds what a real Zed answered, word by word.
var zed = []exchange{
	{name: "no token", method: "GET", path: nova + "/servers", header: map[string]string{"X-Auth-Token": ""}, status: 401,
		want:    `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`,
		headers: map[string]string{"WWW-Authenticate": `Keystone uri="{url}/identity"`, "Content-Type": "application/json"}},
	{name: "bad token", method: "GET", path: keys + "/secrets", header: map[string]string{"X-Auth-Token": "bad"}, status: 401,
		want: `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`},
	{name: "wrong password", method: "POST", path: "/identity/v3/auth/tokens", status: 401,
		body:    `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"k8s","domain":{"id":"default"},"password":"wrong"}}}}}`,
		want:    `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`,
		headers: map[string]string{"WWW-Authenticate": `Keystone uri="{url}/identity/v3"`, "Vary": "X-Auth-Token"}},
	{name: "user without domain", method: "POST", path: "/identity/v3/auth/tokens", status: 400,
		body: `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"k8s","password":"secret"}}}}}`,
		want: `{"error":{"code":400,"message":"Expecting to find domain in user. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.","title":"Bad Request"}}`},
	{name: "unknown method", method: "POST", path: "/identity/v3/auth/tokens", status: 400, body: `{"auth":{"identity":{"methods":["foo"]}}}`,
		want: `{"error":{"code":400,"message":"Expecting to find foo in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.","title":"Bad Request"}}`},
	{name: "unknown application credential", method: "POST", path: "/identity/v3/auth/tokens", status: 404,
		body: `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"nope","secret":"x"}}}}`,
		want: `{"error":{"code":404,"message":"Could not find Application Credential: nope.","title":"Not Found"}}`},
	{name: "forbidden", method: "GET", path: "/identity/v3/projects", status: 403,
		want: `{"error":{"code":403,"message":"You are not authorized to perform the requested action: identity:list_projects.","title":"Forbidden"}}`},
	{name: "unknown subject", method: "GET", path: "/identity/v3/auth/tokens", header: map[string]string{"X-Subject-Token": "bad"}, status: 404,
		want: `{"error":{"code":404,"message":"Could not recognize Fernet token","title":"Not Found"}}`},
	{name: "own projects", method: "GET", path: "/identity/v3/auth/projects", status: 200,
		want: `{"projects": [{"id": "{project}", "name": "k8s", "domain_id": "default", "description": "", "enabled": true, "parent_id": "default", "is_domain": false, "tags": [], "options": {}, "links": {"self": "{url}/identity/v3/projects/{project}"}}], "links": {"next": null, "self": "{url}/identity/v3/auth/projects", "previous": null}}`},
	{name: "own user", method: "GET", path: "/identity/v3/users/{user}", status: 200,
		want: `{"user": {"id": "{user}", "name": "k8s", "domain_id": "default", "enabled": true, "default_project_id": "{project}", "password_expires_at": null, "options": {}, "links": {"self": "{url}/identity/v3/users/{user}"}}}`},
	{name: "identity versions", method: "GET", path: "/identity/", status: 300,
		want: `{"versions": {"values": [{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": [{"rel": "self", "href": "{url}/identity/v3/"}], "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}]}]}}`},

	{name: "compute versions", method: "GET", path: "/compute/", header: map[string]string{"X-Auth-Token": ""}, status: 200,
		want: `{"versions": [{"id": "v2.0", "status": "SUPPORTED", "version": "", "min_version": "", "updated": "2011-01-21T11:33:21Z", "links": [{"rel": "self", "href": "{url}/compute/v2/"}]}, {"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "updated": "2013-07-23T11:33:21Z", "links": [{"rel": "self", "href": "{url}/compute/v2.1/"}]}]}`},
	{name: "microversion too high", method: "GET", path: nova + "/servers", header: map[string]string{"OpenStack-API-Version": "compute 2.200"}, status: 406,
		want:    `{"computeFault": {"code": 406, "message": "Version 2.200 is not supported by the API. Minimum is 2.1 and maximum is 2.93."}}`,
		headers: map[string]string{"OpenStack-API-Version": "compute 2.200", "X-OpenStack-Nova-API-Version": "2.200"}},
	{name: "microversion malformed", method: "GET", path: nova + "/servers", header: map[string]string{"OpenStack-API-Version": "compute x"}, status: 400,
		want:    `{"badRequest": {"code": 400, "message": "API Version String x is of invalid format. Must be of format MajorNum.MinorNum."}}`,
		headers: map[string]string{"OpenStack-API-Version": ""}},
	{name: "latest microversion", method: "GET", path: nova + "/servers?name=nothing", header: map[string]string{"OpenStack-API-Version": "compute latest"}, status: 200,
		want: `{"servers": []}`, headers: map[string]string{"OpenStack-API-Version": "compute 2.93", "X-OpenStack-Nova-API-Version": "2.93"}},
	{name: "older microversion header", method: "GET", path: nova + "/servers?limit=0", header: map[string]string{"X-OpenStack-Nova-API-Version": "2.10"}, status: 200,
		want: `{"servers": []}`, headers: map[string]string{"OpenStack-API-Version": "compute 2.10"}},
	{name: "unknown server", method: "GET", path: nova + "/servers/0000", status: 404,
		want:    `{"itemNotFound": {"code": 404, "message": "Instance 0000 could not be found."}}`,
		headers: map[string]string{"Content-Type": "application/json; charset=UTF-8", "OpenStack-API-Version": "compute 2.1"}},
	{name: "unknown path", method: "GET", path: nova + "/nope", status: 404,
		want:    "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>",
		headers: map[string]string{"Content-Type": "text/html; charset=UTF-8", "OpenStack-API-Version": ""}},
	{name: "bad limit", method: "GET", path: nova + "/servers/detail?limit=-1", status: 400,
		want: `{"badRequest": {"code": 400, "message": "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"}}`},
	{name: "unknown marker", method: "GET", path: nova + "/servers/detail?marker=nope", status: 400,
		want: `{"badRequest": {"code": 400, "message": "marker [nope] not found"}}`},
	{name: "bad name", method: "GET", path: nova + "/servers?name=%5B", status: 400,
		want: `{"badRequest": {"code": 400, "message": "Invalid input for query parameters name. Value: [. '[' is not a 'regex'"}}`},
	{name: "unknown parameter of old", method: "GET", path: nova + "/servers?foo=bar&limit=0", status: 200, want: `{"servers": []}`},
	{name: "unknown parameter", method: "GET", path: nova + "/servers?foo=bar", header: map[string]string{"X-OpenStack-Nova-API-Version": "2.93"}, status: 400,
		want: `{"badRequest": {"code": 400, "message": "'foo' does not match any of the regexes: '^_'"}}`},
	{name: "all tenants", method: "GET", path: nova + "/servers?all_tenants=1", status: 403,
		want: `{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:index:get_all_tenants to be performed."}}`},
	{name: "page of servers", method: "GET", path: nova + "/servers?status=ACTIVE&limit=1", status: 200,
		want: `{"servers": [{"id": "{server}", "name": "node-0", "links": [{"rel": "self", "href": "{url}/compute/v2.1/servers/{server}"}, {"rel": "bookmark", "href": "{url}/compute/servers/{server}"}]}], "servers_links": [{"rel": "next", "href": "{url}/compute/v2.1/servers?limit=1&status=ACTIVE&marker={server}"}]}`},
	{name: "server", method: "GET", path: nova + "/servers/{server}", header: map[string]string{"X-OpenStack-Nova-API-Version": "2.93"}, status: 200,
		want: `{"server": {"id": "{server}", "name": "node-0", "status": "ACTIVE", "tenant_id": "{project}", "user_id": "{user}", "metadata": {}, "hostId": "{any}", "image": {"id": "{any}", "links": [{"rel": "bookmark", "href": "{any}"}]}, "flavor": {"vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 0, "swap": 0, "original_name": "m1.small", "extra_specs": {}}, "created": "{any}", "updated": "{any}", "addresses": {"k8s-net": [{"version": 4, "addr": "{any}", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "{any}"}]}, "accessIPv4": "", "accessIPv6": "", "links": [{"rel": "self", "href": "{url}/compute/v2.1/servers/{server}"}, {"rel": "bookmark", "href": "{url}/compute/servers/{server}"}], "OS-DCF:diskConfig": "MANUAL", "progress": 0, "OS-EXT-AZ:availability_zone": "az1", "config_drive": "", "key_name": null, "OS-SRV-USG:launched_at": "{any}", "OS-SRV-USG:terminated_at": null, "security_groups": [{"name": "default"}], "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1, "os-extended-volumes:volumes_attached": [], "locked": false, "locked_reason": null, "description": null, "tags": [], "trusted_image_certificates": null, "OS-EXT-SRV-ATTR:hostname": "node-0", "server_groups": []}}`},
	{name: "start a running server", method: "POST", path: nova + "/servers/{server}/action", body: `{"os-start":null}`, status: 409,
		want: `{"conflictingRequest": {"code": 409, "message": "Cannot 'start' instance {server} while it is in vm_state active"}}`},
	{name: "unknown action", method: "POST", path: nova + "/servers/{server}/action", body: `{"os-foo":null}`, status: 400,
		want: `{"badRequest": {"code": 400, "message": "There is no such action: os-foo"}}`},
	{name: "unknown flavor", method: "POST", path: nova + "/servers", body: `{"server":{"name":"a","flavorRef":"nope","imageRef":"x"}}`, status: 400,
		want: `{"badRequest": {"code": 400, "message": "Flavor nope could not be found."}}`},
	{name: "no image", method: "POST", path: nova + "/servers", body: `{"server":{"name":"a","flavorRef":"{flavor}"}}`, status: 400,
		want: `{"badRequest": {"code": 400, "message": "Missing imageRef attribute"}}`},
	{name: "create: no JSON", method: "POST", path: nova + "/servers", body: "xx", status: 400,
		want: `{"badRequest": {"code": 400, "message": "Malformed request body"}}`},
	{name: "no metadata item", method: "GET", path: nova + "/servers/{server}/metadata/x", status: 404,
		want: `{"itemNotFound": {"code": 404, "message": "Metadata item was not found"}}`},
	{name: "zones", method: "GET", path: nova + "/os-availability-zone", status: 200,
		want: `{"availabilityZoneInfo": [{"zoneName": "az1", "zoneState": {"available": true}, "hosts": null}, {"zoneName": "az2", "zoneState": {"available": true}, "hosts": null}, {"zoneName": "az3", "zoneState": {"available": true}, "hosts": null}]}`},
	{name: "flavor", method: "GET", path: nova + "/flavors/{flavor}", header: map[string]string{"X-OpenStack-Nova-API-Version": "2.93"}, status: 200,
		want: `{"flavor": {"id": "{flavor}", "name": "m1.small", "ram": 4096, "disk": 20, "swap": 0, "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "vcpus": 2, "os-flavor-access:is_public": true, "rxtx_factor": 1.0, "links": [{"rel": "self", "href": "{url}/compute/v2.1/flavors/{flavor}"}, {"rel": "bookmark", "href": "{url}/compute/flavors/{flavor}"}], "description": null, "extra_specs": {}}}`},

	{name: "volume versions", method: "GET", path: "/volume/v3/", status: 200, headers: map[string]string{"OpenStack-API-Version": "volume 3.0"},
		want: `{"versions": [{"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "updated": "2022-08-31T00:00:00Z", "links": [{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}, {"rel": "self", "href": "{url}/volume/v3/"}], "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}]}]}`},
	{name: "unknown volume", method: "GET", path: cinder + "/volumes/nope", status: 404,
		want:    `{"itemNotFound": {"code": 404, "message": "Volume nope could not be found."}}`,
		headers: map[string]string{"Content-Type": "application/json", "OpenStack-API-Version": "volume 3.0"}},
	{name: "volume of another project", method: "GET", path: "/volume/v3/0000000000000000000000000000dead/volumes", status: 400,
		want: `{"badRequest": {"code": 400, "message": "Malformed request url"}}`},
	{name: "volume", method: "GET", path: cinder + "/volumes/{volume}", header: map[string]string{"OpenStack-API-Version": "volume 3.70"}, status: 200,
		want: `{"volume": {"id": "{volume}", "status": "available", "size": 1, "availability_zone": "az1", "created_at": "{any}", "updated_at": "{any}", "name": "vol0", "description": null, "volume_type": "__DEFAULT__", "snapshot_id": null, "source_volid": null, "metadata": {}, "links": [{"rel": "self", "href": "{url}/volume/v3/{project}/volumes/{volume}"}, {"rel": "bookmark", "href": "{url}/volume/{project}/volumes/{volume}"}], "user_id": "{user}", "bootable": "false", "encrypted": false, "replication_status": null, "consistencygroup_id": null, "multiattach": false, "attachments": [], "group_id": null, "shared_targets": false, "service_uuid": "{any}", "volume_type_id": "{any}", "consumes_quota": true, "os-vol-tenant-attr:tenant_id": "{project}"}}`},
	{name: "volume microversion", method: "GET", path: cinder + "/volumes", header: map[string]string{"OpenStack-API-Version": "volume 3.99"}, status: 406,
		want: `{"computeFault": {"code": 406, "message": "Version 3.99 is not supported by the API. Minimum is 3.0 and maximum is 3.70."}}`},
	{name: "volume without size", method: "POST", path: cinder + "/volumes", body: `{"volume":{"name":"a"}}`, status: 400,
		want: `{"badRequest": {"code": 400, "message": "The server could not comply with the request since it is either malformed or otherwise incorrect."}}`},
	{name: "volume of size 0", method: "POST", path: cinder + "/volumes", body: `{"volume":{"size":0}}`, status: 400,
		want: `{"badRequest": {"code": 400, "message": "Invalid input for field/attribute size. Value: 0. 0 is less than the minimum of 1"}}`},
	{name: "volume of unknown type", method: "POST", path: cinder + "/volumes", body: `{"volume":{"size":1,"volume_type":"nope"}}`, status: 404,
		want: `{"itemNotFound": {"code": 404, "message": "Volume type with name nope could not be found."}}`},
	{name: "volume list limit", method: "GET", path: cinder + "/volumes?limit=x", status: 400,
		want: `{"badRequest": {"code": 400, "message": "limit param must be an integer"}}`},
	{name: "volume list sort", method: "GET", path: cinder + "/volumes?sort=foo", status: 400,
		want: `{"badRequest": {"code": 400, "message": "Invalid input received: Invalid sort key"}}`},

	{name: "key manager versions", method: "GET", path: "/key-manager/", status: 300, headers: map[string]string{"OpenStack-API-Version": "key-manager 1.0"},
		want: `{"versions": {"values": [{"id": "v1", "status": "stable", "links": [{"rel": "self", "href": "{url}/key-manager/v1/"}, {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}], "media-types": [{"base": "application/json", "type": "application/vnd.openstack.key-manager-v1+json"}]}]}}`},
	{name: "key manager versions 1.1", method: "GET", path: "/key-manager/", header: map[string]string{"OpenStack-API-Version": "key-manager 1.1"}, status: 300,
		want: `{"versions": [{"id": "v1", "status": "CURRENT", "min_version": "1.0", "max_version": "1.1", "links": [{"rel": "self", "href": "{url}/key-manager/v1/"}, {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}]}]}`},
	{name: "unknown secret", method: "GET", path: keys + "/secrets/nope", status: 404,
		want: `{"code": 404, "title": "Not Found", "description": "Not Found. Provided secret id is invalid."}`},
	{name: "unknown container", method: "GET", path: keys + "/containers/nope", status: 404,
		want: `{"code": 404, "title": "Not Found", "description": "Not Found. Provided container id is invalid."}`},
	{name: "secret that is no JSON", method: "POST", path: keys + "/secrets", body: "xx", status: 400,
		want: `{"code": 400, "title": "Bad Request", "description": "Malformed JSON"}`},
	{name: "secret of unknown type", method: "POST", path: keys + "/secrets", status: 400, body: `{"payload":"hello","payload_content_type":"foo/bar"}`,
		want: `{"code": 400, "title": "Bad Request", "description": "Provided object does not match schema 'Secret': payload_content_type is not one of ['text/plain', 'text/plain;charset=utf-8', 'text/plain; charset=utf-8', 'application/octet-stream', 'application/pkcs8']. Invalid property: 'payload_content_type'"}`},
	{name: "secret as text", method: "POST", path: keys + "/secrets", header: map[string]string{"Content-Type": "text/plain"}, body: "{}", status: 415,
		want: `{"code": 415, "title": "Unsupported Media Type", "description": "Unexpected content type. Expected content types are: ['application/json']"}`},
	{name: "secret", method: "GET", path: keys + "/secrets/{secret}", status: 200,
		want: `{"created": "{any}", "updated": "{any}", "status": "ACTIVE", "name": "s0", "secret_type": "opaque", "expiration": null, "algorithm": null, "bit_length": null, "mode": null, "creator_id": "{user}", "content_types": {"default": "text/plain"}, "secret_ref": "{url}/key-manager/v1/secrets/{secret}"}`},
	{name: "payload", method: "GET", path: keys + "/secrets/{secret}/payload", header: map[string]string{"Accept": "text/plain"}, status: 200,
		want: "hello", headers: map[string]string{"Content-Type": "text/plain; charset=UTF-8"}},
	{name: "payload as anything", method: "GET", path: keys + "/secrets/{secret}/payload", status: 200, want: "hello", headers: map[string]string{"Content-Type": "*/*"}},
	{name: "payload as JSON", method: "GET", path: keys + "/secrets/{secret}/payload", header: map[string]string{"Accept": "application/json"}, status: 406,
		want: `{"code": 406, "title": "Not Acceptable", "description": "Secret payload retrieval issue seen - Wrong payload content-type."}`},
}

// TestAnswersAsZed compares answers with those of a real Zed: status, body, some headers.
func TestAnswersAsZed(t *testing.T) {
	sim := ossim.ForTest(t)
	client := login(t, sim, password(sim))
	server := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	var flavors struct{ Flavors []struct{ ID, Name string } }
	get(t, client.HTTPClient, sim.URL()+nova+"/flavors", client.Token(), &flavors)
	var own struct {
		Token struct{ User, Project struct{ ID string } }
	}
	get(t, client.HTTPClient, sim.URL()+"/identity/v3/auth/tokens", client.Token(), &own)
	ids := strings.NewReplacer("{url}", sim.URL(), "{project}", own.Token.Project.ID, "{user}", own.Token.User.ID, "{server}", server.ID,
		"{flavor}", flavors.Flavors[1].ID, "{volume}", sim.AddVolume("vol0", "az1").ID, "{secret}", sim.AddSecret("s0", "text/plain", []byte("hello")))
	for _, tt := range zed {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, sim.URL()+ids.Replace(tt.path), strings.NewReader(ids.Replace(tt.body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Auth-Token", client.Token())
			for _, h := range []map[string]string{asJSON, tt.header} {
				for k, v := range h {
					req.Header.Set(k, v)
				}
			}
			resp, err := client.HTTPClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			for k, v := range tt.headers {
				if got := resp.Header.Get(k); got != ids.Replace(v) {
					t.Errorf("header %s: %q, want %q", k, got, ids.Replace(v))
				}
			}
			if resp.Header.Get("X-Openstack-Request-Id") == "" {
				t.Error("no request id")
			}
			compareBody(t, ids.Replace(tt.want), string(body))
		})
	}
}

func get(t *testing.T, client http.Client, url, token string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", token)
	req.Header.Set("X-Subject-Token", token)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
}

// compareBody compares JSON by its values, where "{any}" stands for any string that is not empty, and
// everything else by its bytes.
func compareBody(t *testing.T, want, got string) {
	t.Helper()
	var wantDoc, gotDoc any
	if json.Unmarshal([]byte(want), &wantDoc) != nil {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		return
	}
	if err := json.Unmarshal([]byte(got), &gotDoc); err != nil {
		t.Fatalf("body %q: %v", got, err)
	}
	wild := cmp.FilterValues(func(a, b string) bool { return (a == "{any}" && b != "") || (b == "{any}" && a != "") },
		cmp.Comparer(func(_, _ string) bool { return true }))
	if diff := cmp.Diff(wantDoc, gotDoc, wild); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
