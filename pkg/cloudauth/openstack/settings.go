package openstack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// settings is a complete, checked configuration. It is not changed after it was made.
type settings struct {
	cfg          Config // with what clouds.yaml and the environment added
	auth         gophercloud.AuthOptions
	availability gophercloud.Availability
	tls          *tls.Config
	files        []string // everything it was made of besides cloud.conf
	material     string   // fingerprint of files
}

// same reports whether the other settings would log in just like these.
func (s *settings) same(o *settings) bool {
	return reflect.DeepEqual(s.cfg, o.cfg) && s.material == o.material
}

// newSettings completes and checks cfg. file names cloud.conf in errors. The settings
// returned with an error only hold the files to watch for a repair.
func newSettings(cfg Config, file string, getenv func(string) string) (*settings, error) {
	complete, files, err := complete(cfg, getenv)
	s := &settings{cfg: complete, files: files}
	for _, f := range []string{complete.CAFile, complete.CertFile, complete.KeyFile} {
		if f != "" {
			s.files = append(s.files, f)
		}
	}
	if err != nil {
		return s, misconfigured(file, err)
	}
	var authErr, typeErr, tlsErr error
	s.auth, authErr = complete.authOptions()
	s.availability, typeErr = complete.availability()
	s.tls, tlsErr = tlsConfig(complete, file)
	if err := errors.Join(authErr, typeErr, tlsErr); err != nil {
		return s, misconfigured(file, err)
	}
	return s, nil
}

// misconfigured makes an *Error of all the mistakes, each on its line with file and section.
func misconfigured(file string, err error) error {
	if file == "" {
		file = "cloud.conf"
	}
	var lines []error
	var flatten func(error)
	flatten = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				flatten(e)
			}
			return
		}
		lines = append(lines, fmt.Errorf("%s: [Global]: %w", file, err))
	}
	flatten(err)
	return &Error{Reason: Misconfigured, text: errors.Join(lines...).Error()}
}

// tlsConfig reads certificates; file is cloud.conf. A client certificate needs both of its files:
// one alone has no effect, as in other controllers.
func tlsConfig(cfg Config, file string) (*tls.Config, error) {
	var errs []error
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: bool(cfg.TLSInsecure), //nolint:gosec // only where the configuration says tls-insecure
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("ca-file cannot be read: %w; set it to the PEM file of the CA of Keystone, or remove it to trust the system's CAs%s", err, elsewhere(cfg.CAFile, "ca-file", file, err)))
		}
		c.RootCAs = x509.NewCertPool()
		if err == nil && !c.RootCAs.AppendCertsFromPEM(pem) {
			errs = append(errs, fmt.Errorf("ca-file %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", cfg.CAFile))
		}
	}
	if cfg.CertFile != "" && cfg.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("cert-file %s and key-file %s are no usable pair: %w%s", cfg.CertFile, cfg.KeyFile, err, elsewhere(cfg.CertFile, "cert-file", file, err)))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, errors.Join(errs...)
}

// elsewhere says what to do about a file that is not there, where it is not beside cloud.conf: the
// path of another machine, or of a container that mounted more.
func elsewhere(path, key, file string, err error) string {
	folder := filepath.Dir(file)
	if !errors.Is(err, fs.ErrNotExist) || file == "" || !filepath.IsAbs(path) || filepath.Dir(path) == folder {
		return ""
	}
	name := filepath.Base(path)
	return fmt.Sprintf("; in a pod only the folder of cloud.conf is mounted: put the file into the Secret that cloud.conf comes from, under the key %s, and write %s = %s",
		name, key, filepath.Join(folder, name))
}

// excerpt makes remote text fit for an error.
func (s *settings) excerpt(text string) string {
	return cloudauth.Excerpt(text, 200, s.cfg.secrets()...)
}
