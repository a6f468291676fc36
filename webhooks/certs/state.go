package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
)

// The keys of a Secret of ours. What all others must know of it is in the first three, as
// in any Secret of a certificate.
const (
	keyBundle     = "ca.crt"     // every CA to trust: follows from the others
	keyCert       = "tls.crt"    // the serving certificate
	keyCertKey    = "tls.key"    // and its key
	keyIssuer     = "issuer.crt" // the CA that issued it
	keyIssuerKey  = "issuer.key"
	keyNext       = "next-issuer.crt" // the CA that will issue, once all trust it
	keyNextKey    = "next-issuer.key"
	keyRetired    = "retired.crt" // pairs of a CA that issues no more and the last certificate that it issued
	secretTypeOwn = "isthmus-cloud.github.io/webhook-certificates"
)

// state is the content of a Secret of ours.
type state struct {
	issuer *authority // nil only when there is nothing at all
	next   *authority // nil while no rotation is under way
	// leaf was issued by issuer; nil when it has to be issued anew.
	leaf    *tls.Certificate
	retired []retired
	bundle  []byte
}

// retired is a CA that issues no more. It is trusted until last expires.
type retired struct{ ca, last *x509.Certificate }

// parse reads a Secret's data. What can be made anew without anybody noticing is simply
// missing from the state when it is unusable; repaired says why. The rest is an error, which
// names the key and repeats nothing of its content.
func parse(data map[string][]byte) (s state, repaired []string, err error) {
	if s.issuer, err = parseAuthority(data, keyIssuer, keyIssuerKey); s.issuer == nil {
		return state{}, nil, fmt.Errorf("key %s: %w", keyIssuer, err)
	}
	note := func(what string, err error) {
		if err != nil {
			repaired = append(repaired, fmt.Sprintf("%s cannot be used: %v", what, err))
		}
	}
	note(keyIssuerKey, err)
	if s.retired, err = parseRetired(data[keyRetired]); err != nil {
		return state{}, nil, fmt.Errorf("key %s: %w", keyRetired, err)
	}
	if _, ok := data[keyNext]; ok {
		s.next, err = parseAuthority(data, keyNext, keyNextKey)
		note(keyNext, err)
		if err != nil {
			s.next = nil // nothing was issued by it yet
		}
	}
	s.leaf, err = parseLeaf(data, s.issuer.cert)
	note(keyCert, err)
	s.bundle = data[keyBundle]
	return s, repaired, nil
}

// parseAuthority returns nil when the certificate, and a CA without a key when the key, is
// what err is about.
func parseAuthority(data map[string][]byte, certKey, keyKey string) (*authority, error) {
	certs, err := parseCertificates(data[certKey])
	if err != nil {
		return nil, err
	}
	if len(certs) != 1 || !certs[0].IsCA {
		return nil, errors.New("it must hold one CA certificate")
	}
	key, err := parseKey(data[keyKey], certs[0])
	return &authority{cert: certs[0], key: key}, err
}

func parseRetired(data []byte) ([]retired, error) {
	certs, err := parseCertificates(data)
	if err != nil {
		return nil, err
	}
	if len(certs)%2 != 0 {
		return nil, errors.New("it must hold pairs of certificates")
	}
	var out []retired
	for i := 0; i < len(certs); i += 2 {
		out = append(out, retired{ca: certs[i], last: certs[i+1]})
	}
	return out, nil
}

func parseLeaf(data map[string][]byte, issuer *x509.Certificate) (*tls.Certificate, error) {
	certs, err := parseCertificates(data[keyCert])
	if err != nil {
		return nil, err
	}
	if len(certs) != 1 {
		return nil, errors.New("it must hold one certificate")
	}
	if err := certs[0].CheckSignatureFrom(issuer); err != nil {
		return nil, fmt.Errorf("it was not issued by %s", keyIssuer)
	}
	key, err := parseKey(data[keyCertKey], certs[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyCertKey, err)
	}
	return &tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: key, Leaf: certs[0]}, nil
}

// trusted returns every CA to trust.
func (s state) trusted() []byte {
	cas := []*x509.Certificate{s.issuer.cert}
	if s.next != nil {
		cas = append(cas, s.next.cert)
	}
	for _, r := range s.retired {
		cas = append(cas, r.ca)
	}
	return encodeCertificates(cas...)
}

// encode returns old with our keys as s says.
func (s state) encode(old map[string][]byte) (map[string][]byte, error) {
	data := maps.Clone(old)
	if data == nil {
		data = map[string][]byte{}
	}
	for _, key := range []string{keyIssuerKey, keyNext, keyNextKey, keyRetired} {
		delete(data, key)
	}
	data[keyBundle], data[keyIssuer] = s.trusted(), encodeCertificates(s.issuer.cert)
	var err error
	if s.issuer.key != nil {
		if data[keyIssuerKey], err = encodeKey(s.issuer.key); err != nil {
			return nil, err
		}
	}
	if s.next != nil {
		data[keyNext] = encodeCertificates(s.next.cert)
		if data[keyNextKey], err = encodeKey(s.next.key); err != nil {
			return nil, err
		}
	}
	for _, r := range s.retired {
		data[keyRetired] = append(data[keyRetired], encodeCertificates(r.ca, r.last)...)
	}
	if s.leaf != nil {
		data[keyCert] = encodeCertificates(s.leaf.Leaf)
		if data[keyCertKey], err = encodeLeafKey(s.leaf); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// complete reports whether the bundle is what follows from the rest.
func (s state) complete() bool { return bytes.Equal(s.bundle, s.trusted()) }
