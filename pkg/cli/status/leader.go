package status

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/manifests"
	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

const (
	// maxAnswer bounds what the leader answers, in bytes: a page of full lists has about 3 MB.
	maxAnswer = 8 << 20
	// maxReason bounds what is said of an answer that is no status.
	maxReason = 300
)

// accountFlag is the name of leaderFlags' account.
const accountFlag = "leader-service-account"

// leaderFlags are how the leader's secure port is reached.
type leaderFlags struct{ url, ca, serverName, account string }

func (f *leaderFlags) addTo(fs *pflag.FlagSet) {
	fs.StringVar(&f.account, accountFlag, manifests.Namespace+"/"+manifests.StatusReader,
		"NAMESPACE/NAME of the ServiceAccount that may read the leader's page, and nothing else: a short-lived token of it goes there, not your credentials; empty, the leader is not asked")
	fs.StringVar(&f.url, "leader-url", "", "https://HOST:PORT of the leader's secure port, where the API server does not lead to its pod")
	fs.StringVar(&f.ca, "leader-ca", "", "file with the CA certificates of the secure port's certificate, in PEM; needed with --leader-url, since your credentials go there")
	fs.StringVar(&f.serverName, "leader-server-name", "", "name in the secure port's certificate where it is not the host of --leader-url")
}

func (f *leaderFlags) validate() error {
	if f.account != "" {
		if _, err := access.ParseAccount(accountFlag, f.account); err != nil {
			return err
		}
	}
	if f.url == "" {
		if f.ca != "" || f.serverName != "" {
			return errors.New("--leader-ca and --leader-server-name are of use with --leader-url only")
		}
		return nil
	}
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("--leader-url: it must be https://HOST:PORT") // it may hold a password: it is not repeated
	}
	if f.ca == "" {
		return errors.New("--leader-url needs --leader-ca: your credentials go to a verified server only")
	}
	return nil
}

// leader is the server that is asked for the leader's status.
type leader struct {
	http *http.Client
	host string
	page string
}

// client returns how the leader is asked with the credentials of the API server's config, nil where it is not to be asked. Only a server
// whose certificate f.ca has signed gets them: nothing of how config trusts the API server is taken over, and redirections are not followed.
func (f *leaderFlags) client(config *rest.Config) (*leader, error) {
	if f.url == "" {
		return nil, nil //nolint:nilnil // it is not to be asked
	}
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--leader-ca: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) { // without a certificate the system's would count
		return nil, fmt.Errorf("--leader-ca: there is no certificate in PEM in %s", f.ca)
	}
	u, err := url.Parse(f.url)
	if err != nil {
		return nil, errors.New("--leader-url: it must be https://HOST:PORT")
	}
	l, err := newLeader(u.Host, &rest.Config{
		Host: "https://" + u.Host, UserAgent: config.UserAgent, Timeout: config.Timeout,
		BearerToken: config.BearerToken, BearerTokenFile: config.BearerTokenFile, ExecProvider: config.ExecProvider, AuthProvider: config.AuthProvider,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: ca, ServerName: f.serverName,
			CertFile: config.CertFile, CertData: config.CertData, KeyFile: config.KeyFile, KeyData: config.KeyData,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--leader-url: %w", err)
	}
	return l, nil
}

// forwarder returns how the leader is asked through the API server.
func (f *leaderFlags) forwarder(config *rest.Config, now func() time.Time) (*forwarder, error) {
	as, err := access.ParseAccount(accountFlag, f.account)
	if err != nil {
		return nil, err
	}
	return newForwarder(config, as, now)
}

// newLeader asks the server that config names, and no other that it leads to; host is what it is called in errors.
func newLeader(host string, config *rest.Config) (*leader, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &leader{http: client, host: host, page: config.Host + "/status?format=json"}, nil
}

// ask returns what the leader knows. An error says why it is not known.
func (l *leader) ask(ctx context.Context) (*ccmstatus.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.page, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		var at *url.Error // it would name a port of this machine where one was forwarded
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, fmt.Errorf("ask %s: %w", l.host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("answer of %s: %w", l.host, err)
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %d: you need a role that allows get on the path /status, as for /metrics", l.host, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %d: %s", l.host, resp.StatusCode, output.Line(string(body[:min(len(body), maxReason)])))
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s answers more than %d bytes", l.host, maxAnswer)
	}
	var s ccmstatus.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("the answer of %s is no status: %w", l.host, err)
	}
	if s.Time.IsZero() || s.Version == "" {
		return nil, fmt.Errorf("the answer of %s is no status", l.host)
	}
	if !s.Leads {
		return nil, fmt.Errorf("the replica at %s does not lead: %s does", l.host, output.Line(s.Leader))
	}
	return &s, nil
}
