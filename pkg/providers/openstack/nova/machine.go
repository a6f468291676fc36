package nova

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// machineFile is where a server finds what it is, in both sources.
	machineFile = "openstack/latest/meta_data.json"
	// machineFileMax caps what is read of it.
	machineFileMax = 1 << 20
	// machineTimeout bounds a request to the metadata service by default.
	machineTimeout = 5 * time.Second
)

// machine is the server that this process runs on, as the cloud has told that server.
type machine struct {
	ID        string `json:"uuid"`
	Name      string `json:"name"`
	ProjectID string `json:"project_id"`
	Zone      string `json:"availability_zone"`
}

// readMachine reads the first source that has an answer.
func readMachine(ctx context.Context, m *config.Metadata) (*machine, error) {
	var errs []error
	for _, source := range text.List(m.SearchOrder) {
		read := readConfigDrive
		if source == config.SourceMetadataService {
			read = readMetadataService
		}
		data, err := read(ctx, m)
		var found machine
		if err == nil {
			err = json.Unmarshal(data, &found)
		}
		if err == nil && (!text.IsUUID(found.ID) || found.ProjectID == "") {
			err = errors.New("it names no server and project")
		}
		if err == nil {
			found.ID = strings.ToLower(found.ID)
			return &found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", source, err))
	}
	return nil, errors.Join(errs...)
}

func readConfigDrive(_ context.Context, m *config.Metadata) ([]byte, error) {
	f, err := os.Open(filepath.Join(m.ConfigDrive, machineFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, machineFileMax))
}

func readMetadataService(ctx context.Context, m *config.Metadata) ([]byte, error) {
	timeout := time.Duration(m.RequestTimeout)
	if timeout <= 0 {
		timeout = machineTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.ServiceURL, "/")+"/"+machineFile, nil)
	if err != nil {
		return nil, err
	}
	// The service is on this machine's own link: no proxy, and nowhere else.
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metadata service answers %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, machineFileMax))
}

// CheckMachine says in the log whether the credentials see the server that this process runs
// on. It is a hint and no more: controllers may run in another project than their cluster,
// so that seeing the server proves nothing about the cluster's servers, nor does not seeing it.
func CheckMachine(ctx context.Context, c *api.Client, from *config.Metadata) {
	log := klog.FromContext(ctx)
	m, err := readMachine(ctx, from)
	if err != nil {
		log.V(2).Info("Which server this machine is could not be read; [Metadata] of cloud.conf says where from", "reason", err.Error())
		return
	}
	switch doubt, err := doubtAbout(ctx, c, m); {
	case err != nil:
		log.V(2).Info("This machine's server could not be read", "server", m.ID, "reason", err.Error())
	case doubt != "":
		log.Info("The credentials do not see the server that this process runs on; if it belongs to the cluster, correct [Global] of cloud.conf",
			"server", m.ID, "name", m.Name, "project", m.ProjectID, "reason", doubt)
	default:
		log.V(2).Info("The credentials see the server that this process runs on", "server", m.ID, "name", m.Name)
	}
}

// doubtAbout returns why the credentials do not see the machine's server, empty when they do.
func doubtAbout(ctx context.Context, c *api.Client, m *machine) (string, error) {
	sc, err := c.Service(ctx, api.Compute)
	if err != nil {
		return "", err
	}
	if project := api.ProjectOf(sc); project != "" && project != m.ProjectID {
		return "the credentials are for project " + project, nil
	}
	_, err = (&Instances{c: c}).getServerByID(ctx, m.ID)
	if cloud.IsNotFound(err) {
		return "it is not in " + api.ScopeOf(sc) + ", perhaps another region", nil
	}
	return "", err
}
