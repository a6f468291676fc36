// Package apitest is an EC2 of a few lines for the provider's tests: it answers the SDK's own requests over HTTP with what a
// test puts in, counts them, and fails when told to. test/cloudsim/aws is to take its place.
package apitest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

const (
	// Region is where the cloud is, and Account whose it is.
	Region  = "eu-central-1"
	Account = "111122223333"
	// Scope is that of what is found and of what is not.
	Scope = "account " + Account + " in " + Region
	// Self is the instance that the metadata service says that it is on.
	Self = "i-0123456789abcdef0"
)

// Request is what was asked.
type Request struct {
	Action string
	Form   url.Values
	// UserAgent and Authorization are headers.
	UserAgent, Authorization string
}

// Fault is an answer in place of the right one. Status 0 closes the connection; a Body goes out as it is.
type Fault struct {
	Status        int
	Code, Message string
	Body          string
	Header        http.Header
}

// Cloud is a small EC2 in one region, and a metadata service.
type Cloud struct {
	t      testing.TB
	server *httptest.Server

	mu        sync.Mutex
	instances []types.Instance
	volumes   []types.Volume
	nodes     map[string][]string // by instance
	faults    map[string][]Fault  // by action
	requests  []Request
}

// Start starts a cloud, and points the environment at it, with credentials.
func Start(t *testing.T) *Cloud {
	t.Helper()
	c := &Cloud{t: t, nodes: map[string][]string{}, faults: map[string][]Fault{}}
	c.server = httptest.NewServer(http.HandlerFunc(c.answer))
	t.Cleanup(c.server.Close)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_SHARED_CREDENTIALS_FILE": empty, "AWS_CONFIG_FILE": empty, "AWS_ENDPOINT_URL": c.server.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": c.server.URL,
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "s3cret-key",
	} {
		t.Setenv(name, value)
	}
	return c
}

// URL is the cloud's endpoint.
func (c *Cloud) URL() string { return c.server.URL }

// Client makes a client of the cloud by a cloud.conf.
func (c *Cloud) Client(conf string, o cloud.Options) (*api.Client, *config.Config) {
	c.t.Helper()
	cfg, warnings, err := config.Parse("cloud.conf", []byte(conf))
	if err != nil || len(warnings) > 0 {
		c.t.Fatalf("%s: %q, %v", conf, warnings, err)
	}
	if o.UserAgent == "" {
		o.UserAgent = "test/v1"
	}
	client, err := api.New(c.t.Context(), cfg, o)
	if err != nil {
		c.t.Fatal(err)
	}
	return client, cfg
}

// AddInstance adds an instance; what it does not say of its state, type and zone is usual.
func (c *Cloud) AddInstance(i types.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.State == nil {
		i.State = &types.InstanceState{Name: types.InstanceStateNameRunning}
	}
	if i.InstanceType == "" {
		i.InstanceType = types.InstanceTypeM5Large
	}
	if i.Placement == nil {
		i.Placement = &types.Placement{AvailabilityZone: aws.String(Region + "a"), AvailabilityZoneId: aws.String("euc1-az2")}
	}
	c.instances = append(c.instances, i)
}

// SetState gives an instance a state.
func (c *Cloud) SetState(id string, state types.InstanceStateName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.instances {
		if aws.ToString(c.instances[n].InstanceId) == id {
			c.instances[n].State = &types.InstanceState{Name: state}
		}
	}
}

// SetNodes says what is above an instance in the network.
func (c *Cloud) SetNodes(id string, nodes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[id] = nodes
}

// AddVolume adds a volume.
func (c *Cloud) AddVolume(id, zone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumes = append(c.volumes, types.Volume{VolumeId: &id, AvailabilityZone: &zone})
}

// Fail has the next calls of an action fail.
func (c *Cloud) Fail(action string, faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[action] = append(c.faults[action], faults...)
}

// Requests returns what was asked of EC2 since it was asked last.
func (c *Cloud) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.requests
	c.requests = nil
	return out
}

// Actions are the names of Requests.
func (c *Cloud) Actions() []string {
	var out []string
	for _, r := range c.Requests() {
		out = append(out, r.Action)
	}
	return out
}

func (c *Cloud) answer(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		c.metadata(w, r)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := r.Form.Get("Action")
	c.requests = append(c.requests, Request{action, r.Form, r.UserAgent(), r.Header.Get("Authorization")})
	w.Header().Set("X-Amzn-Requestid", "request-"+strconv.Itoa(len(c.requests)))
	if faults := c.faults[action]; len(faults) > 0 {
		c.faults[action] = faults[1:]
		fail(w, faults[0])
		return
	}
	var out any
	var fault *Fault
	switch action {
	case "DescribeInstances":
		out, fault = c.describeInstances(r.Form)
	case "DescribeVolumes":
		out, fault = c.describeVolumes(r.Form)
	case "DescribeInstanceTopology":
		out, fault = c.describeTopology(r.Form)
	case "DescribeAvailabilityZones":
		out = zonesReply{Zones: []zoneXML{{Region + "a", "euc1-az2"}, {Region + "b", "euc1-az3"}}}
	default:
		fault = &Fault{Status: http.StatusBadRequest, Code: "InvalidAction", Message: "The action " + action + " is not valid"}
	}
	if fault != nil {
		fail(w, *fault)
		return
	}
	data, err := xml.Marshal(out)
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(data)
}

func fail(w http.ResponseWriter, f Fault) {
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	if f.Status == 0 {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	w.WriteHeader(f.Status)
	if f.Body != "" {
		_, _ = w.Write([]byte(f.Body))
		return
	}
	_, _ = fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code><Message>", f.Code)
	_ = xml.EscapeText(w, []byte(f.Message))
	_, _ = fmt.Fprint(w, "</Message></Error></Errors><RequestID>r</RequestID></Response>")
}

func (c *Cloud) metadata(w http.ResponseWriter, r *http.Request) {
	if faults := c.faults["metadata"]; len(faults) > 0 {
		fail(w, faults[0]) // for ever, as the SDK tries again
		return
	}
	switch r.URL.Path {
	case "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
		_, _ = w.Write([]byte("token"))
	case "/latest/dynamic/instance-identity/document":
		_ = json.NewEncoder(w).Encode(map[string]string{"region": Region, "instanceId": Self, "accountId": Account})
	default:
		http.NotFound(w, r)
	}
}

// list are the values of a parameter that is one, such as InstanceId.1.
func list(form url.Values, name string) []string {
	var out []string
	for n := 1; form.Has(name + "." + strconv.Itoa(n)); n++ {
		out = append(out, form.Get(name+"."+strconv.Itoa(n)))
	}
	return out
}

// filters are those of a request by their names.
func filters(form url.Values) (map[string][]string, *Fault) {
	out, values := map[string][]string{}, 0
	for n := 1; form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		v := list(form, fmt.Sprintf("Filter.%d.Value", n))
		out[form.Get(fmt.Sprintf("Filter.%d.Name", n))] = v
		values += len(v)
	}
	if values > api.MaxFilterValues {
		return nil, &Fault{Status: http.StatusBadRequest, Code: "FilterLimitExceeded", Message: "The maximum number of filter values specified on a single call is 200"}
	}
	return out, nil
}

// page cuts what a request is answered with, and returns where the next page begins.
func page[T any](form url.Values, all []T) ([]T, string) {
	from, _ := strconv.Atoi(form.Get("NextToken"))
	most, err := strconv.Atoi(form.Get("MaxResults"))
	if err != nil || from+most >= len(all) {
		return all[min(from, len(all)):], ""
	}
	return all[from : from+most], strconv.Itoa(from + most)
}

func (c *Cloud) describeInstances(form url.Values) (any, *Fault) {
	ids := list(form, "InstanceId")
	if fault := missing(ids, c.instances, func(i types.Instance) string { return aws.ToString(i.InstanceId) }, "InvalidInstanceID.NotFound", "instance"); fault != nil {
		return nil, fault
	}
	by, fault := filters(form)
	if fault != nil {
		return nil, fault
	}
	var out []types.Instance
	for _, i := range c.instances {
		if (len(ids) == 0 || slices.Contains(ids, aws.ToString(i.InstanceId))) && passes(i, by) {
			out = append(out, i)
		}
	}
	out, next := page(form, out)
	reply := instancesReply{Next: next}
	for _, i := range out {
		reply.Reservations = append(reply.Reservations, reservationXML{Account, []instanceXML{instanceOf(i)}})
	}
	return reply, nil
}

// missing is the error of a request that names what there is not.
func missing[T any](ids []string, all []T, idOf func(T) string, code, what string) *Fault {
	absent := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(all, func(one T) bool { return idOf(one) == id })
	})
	if len(absent) == 0 {
		return nil
	}
	return &Fault{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf("The %s ID '%s' does not exist", what, strings.Join(absent, ", "))}
}

func passes(i types.Instance, by map[string][]string) bool {
	for name, values := range by {
		var have []string
		switch name {
		case "instance-id":
			have = []string{aws.ToString(i.InstanceId)}
		case "private-dns-name":
			have = []string{aws.ToString(i.PrivateDnsName)}
		case "instance-state-name":
			have = []string{string(i.State.Name)}
		case "tag-key":
			for _, t := range i.Tags {
				have = append(have, aws.ToString(t.Key))
			}
		}
		if !slices.ContainsFunc(have, func(v string) bool { return slices.Contains(values, v) }) {
			return false
		}
	}
	return true
}

func (c *Cloud) describeVolumes(form url.Values) (any, *Fault) {
	ids := list(form, "VolumeId")
	if fault := missing(ids, c.volumes, func(v types.Volume) string { return aws.ToString(v.VolumeId) }, "InvalidVolume.NotFound", "volume"); fault != nil {
		return nil, fault
	}
	by, fault := filters(form)
	if fault != nil {
		return nil, fault
	}
	var out []volumeXML
	for _, v := range c.volumes {
		id := aws.ToString(v.VolumeId)
		if (len(ids) == 0 || slices.Contains(ids, id)) && (len(by) == 0 || slices.Contains(by["volume-id"], id)) {
			out = append(out, volumeXML{id, aws.ToString(v.AvailabilityZone)})
		}
	}
	reply := volumesReply{}
	reply.Volumes, reply.Next = page(form, out)
	return reply, nil
}

func (c *Cloud) describeTopology(form url.Values) (any, *Fault) {
	ids := list(form, "InstanceId")
	if len(ids) > api.MaxTopologyIDs {
		return nil, &Fault{Status: http.StatusBadRequest, Code: "InvalidParameterValue", Message: "too many instances"}
	}
	if fault := missing(ids, c.instances, func(i types.Instance) string { return aws.ToString(i.InstanceId) }, "InvalidInstanceID.NotFound", "instance"); fault != nil {
		return nil, fault
	}
	reply := topologyReply{}
	for _, id := range ids {
		if nodes := c.nodes[id]; len(nodes) > 0 {
			reply.Instances = append(reply.Instances, topologyXML{id, nodes})
		}
	}
	return reply, nil
}
