package nova

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// configDrive is a mounted config drive.
func configDrive(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "openstack", "latest"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, machineFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func machineJSON(id, project string) string {
	return fmt.Sprintf(`{"uuid": %q, "name": "node-0", "project_id": %q, "availability_zone": "az1", "meta": {"a": "b"}}`, id, project)
}

func TestReadMachine(t *testing.T) {
	service := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/openstack/latest/meta_data.json" {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	elsewhere := httptest.NewServer(http.RedirectHandler(service(200, machineJSON(idB, "p2")), http.StatusFound))
	t.Cleanup(elsewhere.Close)
	drive, none := configDrive(t, machineJSON(idA, "p1")), t.TempDir()
	first := &machine{ID: idA, Name: "node-0", ProjectID: "p1", Zone: "az1"}
	second := &machine{ID: idB, Name: "node-0", ProjectID: "p2", Zone: "az1"}
	good := service(200, machineJSON(strings.ToUpper(idB), "p2"))
	for _, test := range []struct {
		name, order, drive, url string
		want                    *machine
		err                     []string
	}{
		{name: "drive first", order: "configDrive,metadataService", drive: drive, url: good, want: first},
		{name: "service first", order: "metadataService, configDrive", drive: drive, url: good, want: second},
		{name: "no drive", order: "configDrive,metadataService", drive: none, url: good + "/", want: second},
		{name: "only the drive", order: "configDrive", drive: none, url: good, err: []string{"configDrive: "}},
		{name: "only the service", order: "metadataService", drive: drive, url: service(404, "no"), err: []string{"metadataService: the metadata service answers 404"}},
		{name: "service hangs", order: "metadataService", url: hangs.URL, err: []string{"metadataService: ", "deadline exceeded"}},
		{name: "redirects are not followed", order: "metadataService", url: elsewhere.URL, err: []string{"302"}},
		{name: "no JSON", order: "configDrive,metadataService", drive: configDrive(t, "x"), url: service(200, "<html>"), err: []string{"configDrive: ", "metadataService: "}},
		{name: "another file", order: "configDrive", drive: configDrive(t, `{"uuid": "x"}`), err: []string{"it names no server and project"}},
		{name: "too large", order: "metadataService", url: service(200, strings.Repeat(" ", machineFileMax)+machineJSON(idA, "p1")), err: []string{"metadataService: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readMachine(t.Context(), &config.Metadata{SearchOrder: test.order, ConfigDrive: test.drive, ServiceURL: test.url, RequestTimeout: config.Duration(300 * time.Millisecond)})
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != (test.err != nil) {
				t.Errorf("%v, machine (-want +got):\n%s", err, diff)
			}
			for _, want := range test.err {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}

// The credentials' project and region are compared with those of the machine's own server.
func TestDoubtAboutMachine(t *testing.T) {
	sim := ossim.ForTest(t)
	s := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	c := newProvider(t, sim, "").Instances.(*Instances).c
	sc, err := c.Service(apitest.Context(t), api.Compute)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ id, project, want string }{
		{s.ID, api.ProjectOf(sc), ""},
		{s.ID, "another", "the credentials are for project " + api.ProjectOf(sc)},
		{missingID, api.ProjectOf(sc), "perhaps another region"},
	} {
		got, err := doubtAbout(apitest.Context(t), c, &machine{ID: test.id, ProjectID: test.project})
		if err != nil || (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
	defer sim.AddFault(ossim.Fault{Service: "compute", Status: 503})()
	if got, err := doubtAbout(apitest.Context(t), c, &machine{ID: s.ID, ProjectID: api.ProjectOf(sc)}); err == nil || got != "" {
		t.Errorf("with Nova down: %q, %v", got, err)
	}
}
