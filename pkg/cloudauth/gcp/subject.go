package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// subject gives the token to be exchanged.
type subject func(ctx context.Context) (cloudauth.Secret, error)

// subjectSource says where the subject token of workload identity federation is.
type subjectSource struct {
	File          string            `json:"file"`
	URL           string            `json:"url"`
	Headers       map[string]string `json:"headers"`
	Executable    any               `json:"executable"`
	Certificate   any               `json:"certificate"`
	EnvironmentID string            `json:"environment_id"`
	Format        subjectFormat     `json:"format"`
}

// subjectOf makes of a file's credential_source what gives the subject token.
func (s *Session) subjectOf(file string, src *subjectSource) (subject, error) {
	switch {
	case src == nil:
		return nil, errors.New("credential_source is missing")
	case src.Executable != nil:
		return nil, errors.New("credential_source: executable is not supported, because a file could then run any program; let the program write the token to a file (file) or serve it (url)")
	case src.EnvironmentID != "":
		return nil, fmt.Errorf("credential_source: environment_id %q is not supported; use a token in a file (file) or from a server (url)", cloudauth.Excerpt(src.EnvironmentID, 40))
	case src.Certificate != nil:
		return nil, errors.New("credential_source: certificate is not supported; use a token in a file (file) or from a server (url)")
	case (src.File == "") == (src.URL == ""):
		return nil, errors.New("credential_source: one of file and url has to be there")
	}
	switch src.Format.Type {
	case "", "text":
	case "json":
		if src.Format.Field == "" {
			return nil, errors.New("credential_source: format: subject_token_field_name is missing")
		}
	default:
		return nil, fmt.Errorf("credential_source: format: type %q is not known; it has to be text or json", cloudauth.Excerpt(src.Format.Type, 40))
	}
	if src.File != "" {
		return src.Format.ofFile(file, src.File), nil
	}
	u, err := url.Parse(src.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())) {
		return nil, errors.New("credential_source: url has to be https://…, or http:// to this machine or a link-local address")
	}
	for name := range src.Headers {
		if textproto.CanonicalMIMEHeaderKey(name) == "Host" {
			return nil, errors.New("credential_source: headers: Host is not supported; write it in the url")
		}
	}
	return src.Format.ofURL(s, file, u, src.Headers), nil
}

// given is a subject token that is at hand.
func given(token cloudauth.Secret) subject {
	return func(context.Context) (cloudauth.Secret, error) { return token, nil }
}

// subjectFormat is how a subject token is found in what is read.
type subjectFormat struct {
	Type  string `json:"type"`
	Field string `json:"subject_token_field_name"`
}

// parse takes the subject token out of what was read, false if there is none.
func (f subjectFormat) parse(data []byte) (cloudauth.Secret, bool) {
	text := strings.TrimSpace(string(data))
	if f.Type == "json" {
		var fields map[string]any
		if decodeOne(data, &fields) != nil {
			return cloudauth.Secret{}, false
		}
		text, _ = fields[f.Field].(string)
	}
	// A token is a word: what has spaces or line breaks in it is something else.
	return cloudauth.NewSecret(text), text != "" && isPrintable(text)
}

// ofFile reads the subject token from a file, each time: others renew it.
func (f subjectFormat) ofFile(config, file string) subject {
	return func(context.Context) (cloudauth.Secret, error) {
		data, err := cloudauth.ReadFile(file)
		if err != nil {
			return cloudauth.Secret{}, cloudauth.NewError(cloudauth.NoCredentials, "%s: the subject token cannot be read: %v; check the path and who may read it", config, err)
		}
		token, ok := f.parse(data)
		if !ok {
			return cloudauth.Secret{}, cloudauth.NewError(cloudauth.NoCredentials, "%s: %s holds no subject token; check credential_source.format", config, file)
		}
		return token, nil
	}
}

// ofURL gets the subject token from a server.
func (f subjectFormat) ofURL(s *Session, config string, u *url.URL, fields map[string]string) subject {
	return func(ctx context.Context) (cloudauth.Secret, error) {
		r := request{
			service: "the source of the subject token", url: u.String(), local: isLocal(u.Hostname()),
			header: http.Header{}, who: "the request of " + config,
			hint: func(int, string) string { return "check credential_source in " + config },
		}
		for k, v := range fields {
			r.header.Set(k, v)
			r.secrets = append(r.secrets, cloudauth.NewSecret(v)) // it may be a password
		}
		a, err := s.send(ctx, r)
		if err != nil {
			return cloudauth.Secret{}, err
		}
		token, ok := f.parse(a.body)
		if !ok {
			return cloudauth.Secret{}, cloudauth.NewError(cloudauth.NoCredentials, "%s: %s answers without a subject token; check credential_source.format", config, r.host())
		}
		return token, nil
	}
}
