package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
)

// http2Suites are the cipher suites of TLS 1.2 of which HTTP/2 needs one.
func http2Suites() []uint16 {
	return []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
}

// tlsConfig returns the settings but for the certificate, or all that is wrong with them, by flag.
func (o *Options) tlsConfig() (*tls.Config, error) {
	var errs []error
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	if o.DisableHTTP2 {
		config.NextProtos = []string{"http/1.1"}
	}
	switch o.MinTLSVersion {
	case "VersionTLS12":
		config.MinVersion = tls.VersionTLS12
	case "VersionTLS13":
		config.MinVersion = tls.VersionTLS13
	default:
		errs = append(errs, fmt.Errorf("--webhook-tls-min-version: %q is not supported; use VersionTLS12 or VersionTLS13", o.MinTLSVersion))
	}
	suites, err := o.cipherSuites()
	if err != nil {
		errs = append(errs, err)
	} else if config.MinVersion == tls.VersionTLS12 {
		config.CipherSuites = suites
	}
	if len(o.CurvePreferences) > 0 {
		curves, err := cliflag.TLSCurvePreferences(o.CurvePreferences)
		if err != nil {
			errs = append(errs, fmt.Errorf("--webhook-tls-curve-preferences: %w", err))
		}
		config.CurvePreferences = curves
	}
	return config, errors.Join(errs...)
}

// cipherSuites returns those of the flag; nil for Go's choice.
func (o *Options) cipherSuites() ([]uint16, error) {
	if len(o.CipherSuites) == 0 {
		return nil, nil
	}
	const flag = "--webhook-tls-cipher-suites"
	insecure := cliflag.InsecureTLSCipherNames()
	if i := slices.IndexFunc(o.CipherSuites, func(name string) bool { return slices.Contains(insecure, name) }); i >= 0 {
		return nil, fmt.Errorf("%s: %s is insecure; use some of %s", flag, o.CipherSuites[i], strings.Join(cliflag.PreferredTLSCipherNames(), ", "))
	}
	suites, err := cliflag.TLSCipherSuites(o.CipherSuites)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; use some of %s", flag, err, strings.Join(cliflag.PreferredTLSCipherNames(), ", "))
	}
	needed := http2Suites()
	if !o.DisableHTTP2 && o.MinTLSVersion == "VersionTLS12" && !slices.ContainsFunc(suites, func(s uint16) bool { return slices.Contains(needed, s) }) {
		return nil, fmt.Errorf("%s: HTTP/2 needs %s or %s beside them; or set --webhook-tls-min-version=VersionTLS13, or --webhook-disable-http2-serving",
			flag, tls.CipherSuiteName(needed[0]), tls.CipherSuiteName(needed[1]))
	}
	return suites, nil
}
