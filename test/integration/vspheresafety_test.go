package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// vsphereLie is what a vCenter answers instead of the truth.
type vsphereLie struct {
	name string
	// to are the methods of the vSphere API that it is told to; none is all requests.
	to   []string
	told func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// least is how often the vCenter must have been asked meanwhile.
	least int
}

const envelope = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>`

func say(status int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // into the network
	}
}

func fault(kind string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return say(http.StatusInternalServerError, fmt.Sprintf(envelope, `<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>no</faultstring><detail><`+kind+
		`Fault xmlns="urn:vim25" xsi:type="`+kind+`"></`+kind+`Fault></detail></soapenv:Fault>`))
}

func answer(body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return say(http.StatusOK, fmt.Sprintf(envelope, body))
}

// changed answers what the vCenter does, but for a change of it.
func changed(change func([]byte) []byte) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		truth := httptest.NewRecorder()
		next.ServeHTTP(truth, r)
		_, _ = w.Write(change(truth.Body.Bytes())) // into the network
	}
}

// without answers without the properties of these names.
func without(names ...string) func([]byte) []byte {
	return func(b []byte) []byte {
		for _, name := range names {
			for {
				at := bytes.Index(b, []byte("<propSet><name>"+name+"</name>"))
				if at < 0 {
					break
				}
				end := bytes.Index(b[at:], []byte("</propSet>"))
				b = append(b[:at:at], b[at+end+len("</propSet>"):]...)
			}
		}
		return b
	}
}

func vsphereLies() []vsphereLie {
	const retrieve = "RetrievePropertiesEx"
	finds := []string{"FindAllByUuid", "FindAllByDnsName", "FindAllByIp"}
	nothing := `<RetrievePropertiesExResponse xmlns="urn:vim25"></RetrievePropertiesExResponse>`
	cut := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	hang := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
	return []vsphereLie{
		{name: "logins are refused", told: fault("InvalidLogin"), least: 4},
		{name: "sessions end at once", told: fault("NotAuthenticated"), least: 4},
		{name: "no permission", told: fault("NoPermission"), least: 4},
		{name: "objects are gone", to: []string{retrieve}, told: fault("ManagedObjectNotFound"), least: 4},
		{name: "404 of a proxy", told: say(404, "<html><head><title>404 Not Found</title></head><body>nginx</body></html>"), least: 4},
		{name: "429", told: say(429, ""), least: 4},
		{name: "500 without a body", told: say(500, ""), least: 4},
		{name: "503", told: say(503, "no healthy upstream"), least: 4},
		{name: "no XML", told: say(200, "<html>login</html>"), least: 4},
		{name: "an answer without a body", told: say(200, ""), least: 4},
		{name: "another answer", told: answer(`<CurrentTimeResponse xmlns="urn:vim25"><returnval>2026-01-01T00:00:00Z</returnval></CurrentTimeResponse>`), least: 4},
		{name: "half an answer", to: []string{retrieve}, told: changed(func(b []byte) []byte { return b[:len(b)/2] }), least: 4},
		{name: "no machines", to: append(finds, retrieve), told: answer(nothing), least: 4},
		{name: "machines without properties", to: []string{retrieve}, told: changed(without("name", "config.uuid", "guest.hostName", "guest.net", "runtime.powerState")), least: 4},
		{name: "machines without UUIDs, as their files are away", to: []string{retrieve}, told: changed(without("config.uuid", "guest.hostName", "guest.net")), least: 4},
		{name: "searches that find nothing", to: finds, told: answer(`<FindAllByUuidResponse xmlns="urn:vim25"></FindAllByUuidResponse>`), least: 4},
		{name: "cut connections", told: cut, least: 4},
		{name: "no answer", told: hang, least: 1},
	}
}

// Whatever a vCenter answers instead of the truth, the real framework deletes no Node and taints none as shut down.
func TestComplaint479UnknownErrorDeletesNodeOnVSphere(t *testing.T) {
	t.Parallel()
	for _, lie := range vsphereLies() {
		t.Run(lie.name, func(t *testing.T) {
			c := newCluster(t)
			v, err := sim.New(t.Context(), t.TempDir(), 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(v.Close)
			c.factory = vsphere.New
			d := doubt{lost: map[string]bool{}, least: lie.least}
			var machines []sim.Machine
			for n := range bystanders + 2 {
				m, err := v.MakeMachine(t.Context(), fmt.Sprint("vs-", n))
				if err != nil {
					t.Fatal(err)
				}
				id := "vsphere://" + m.UUID
				if byName(n) {
					id = ""
				}
				c.create(registered(m.Name, id, corev1.ConditionUnknown))
				machines, d.nodes = append(machines, m), append(d.nodes, m.Name)
			}
			d.start = func(args ...string) {
				c.start(v.ConfigIPv4(), fastClock{start: time.Now()}, args)
				eventually.Met(t, func() string { // one that is told lies before it has begun does not begin
					if v.Methods()["RetrievePropertiesEx"] == 0 {
						return "no machines were asked for"
					}
					return ""
				})
			}
			before := int64(0)
			d.asked = func() int { return int(v.Requests.Load() - before) }
			d.reset = func() { before = v.Requests.Load() }
			d.lie = func() (stop func()) { return v.Lie(lie.tell) }
			d.end = func() {
				if err := v.Delete(t.Context(), machines[bystanders].UUID); err != nil {
					t.Error(err)
				}
				if err := v.Stop(t.Context(), machines[bystanders+1].UUID); err != nil {
					t.Error(err)
				}
			}
			c.wantDoubt(t, &d)
		})
	}
}

// tell tells the lie to whom it is for.
func (l *vsphereLie) tell(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, method := range l.to {
		if strings.Contains(string(body), "<"+method+" ") {
			l.told(w, r, next)
			return
		}
	}
	if len(l.to) > 0 {
		next.ServeHTTP(w, r)
		return
	}
	l.told(w, r, next)
}
