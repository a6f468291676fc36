package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// accessTimeout bounds the question to the API server.
const accessTimeout = 10 * time.Second

// kubeconfig is what is read of a kubelet's kubeconfig.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
}

type cluster struct {
	Server string `yaml:"server"`
	CAFile string `yaml:"certificate-authority"`
	CAData string `yaml:"certificate-authority-data"`
	Name   string `yaml:"tls-server-name"`
}

type user struct {
	CertFile  string           `yaml:"client-certificate"`
	CertData  string           `yaml:"client-certificate-data"`
	KeyFile   string           `yaml:"client-key"`
	KeyData   cloudauth.Secret `yaml:"client-key-data"`
	Token     cloudauth.Secret `yaml:"token"`
	TokenFile string           `yaml:"tokenFile"`
}

// MayRequestTokens asks the API server whether the one whom a kubeconfig logs in, which has to be
// the kubelet's, may have tokens for an audience, of all service accounts or, where a namespace and
// a name are given, of that one. It only asks: nothing is changed.
func MayRequestTokens(ctx context.Context, file, audience, namespace, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	at, who, err := readKubeconfig(file)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	client, err := at.client(who, filepath.Dir(file))
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]string{"verb": TokenVerb, "resource": audience, "version": "v1", "namespace": namespace, "name": name}},
	})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(at.Server, "/")+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("%s: the address of the API server: %w", file, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token, err := who.token(filepath.Dir(file)); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	} else if !token.IsEmpty() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	return review(client, req)
}

// review sends the question and reads the answer.
func review(client *http.Client, req *http.Request) (bool, error) {
	resp, err := client.Do(req)
	if err != nil {
		return false, fmt.Errorf("asking the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return false, fmt.Errorf("the API server's answer: %w", err)
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the API server answers %s", resp.Status)
	}
	var answer struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return false, errors.New("the API server's answer is no SelfSubjectAccessReview")
	}
	return answer.Status.Allowed, nil
}

// readKubeconfig returns the cluster and the user of the current context.
func readKubeconfig(file string) (cluster, user, error) {
	data, err := read(file)
	if err != nil {
		return cluster{}, user{}, err
	}
	var k kubeconfig
	if yaml.Unmarshal(data, &k) != nil { // its error may quote a key
		return cluster{}, user{}, errors.New("it is no kubeconfig")
	}
	for _, c := range k.Contexts {
		if c.Name != k.CurrentContext {
			continue
		}
		for _, at := range k.Clusters {
			for _, who := range k.Users {
				if at.Name == c.Context.Cluster && who.Name == c.Context.User {
					return at.Cluster, who.User, nil
				}
			}
		}
	}
	return cluster{}, user{}, errors.New("it has no current-context with a cluster and a user")
}

// client makes what speaks to the cluster as the user. Files are relative to dir.
func (c cluster) client(u user, dir string) (*http.Client, error) {
	if at, err := url.Parse(c.Server); err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, errors.New("its server is no https:// address")
	}
	ca, err := content(c.CAData, c.CAFile, dir)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.Name}
	if ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("certificate-authority: it holds no certificate")
		}
	}
	cert, certErr := content(u.CertData, u.CertFile, dir)
	key, keyErr := content(u.KeyData.Reveal(), u.KeyFile, dir)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("client-certificate and client-key: %w", err)
	}
	switch {
	case cert != nil && key != nil:
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, errors.New("client-certificate and client-key are no pair")
		}
		config.Certificates = []tls.Certificate{pair}
	case u.Token.IsEmpty() && u.TokenFile == "":
		return nil, errors.New("it has neither a client certificate nor a token; one that runs a program for it is not supported here")
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the API server redirects") },
	}, nil
}

// content is what a key of a kubeconfig has, in itself or in a file.
func content(data, file, dir string) ([]byte, error) {
	switch {
	case data != "":
		decoded, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, errors.New("it is no base64")
		}
		return decoded, nil
	case file == "":
		return nil, nil
	case !filepath.IsAbs(file):
		file = filepath.Join(dir, file)
	}
	return read(file)
}

func (u user) token(dir string) (cloudauth.Secret, error) {
	if !u.Token.IsEmpty() || u.TokenFile == "" {
		return u.Token, nil
	}
	file := u.TokenFile
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	data, err := os.ReadFile(file)
	return cloudauth.NewSecret(strings.TrimSpace(string(data))), err
}
