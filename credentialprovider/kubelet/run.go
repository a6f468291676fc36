package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// runTimeout is the time after which a kubelet kills a provider.
const runTimeout = time.Minute

// maxAnswer bounds what is read of a provider's answer.
const maxAnswer = 4 << 20

// Runner runs providers as a kubelet does.
type Runner struct {
	// BinDir is where they are.
	BinDir string
	// Environ is the environment, to which an entry adds its own.
	Environ []string
	// Token is a service account's, empty for none, and Annotations are those of the account.
	Token       cloudauth.Secret
	Annotations map[string]string
}

// Answer is what a kubelet takes of a provider's answer.
type Answer struct {
	// Logins are the users by the keys of "auth".
	Logins map[string]Login
	// CacheKey is cacheKeyType.
	CacheKey string
	// Cache is how long the answer is kept; 0 is not at all.
	Cache time.Duration
	// Default says that Cache is the entry's and not the answer's.
	Default bool
	// Took is how long the provider ran, and Said what it wrote to stderr, which a kubelet drops if
	// there is an answer.
	Took time.Duration
	Said string
}

// Login is a user name with a password, which only this package sees.
type Login struct {
	User     string
	password cloudauth.Secret
}

// HasPassword reports whether there is a password.
func (l Login) HasPassword() bool { return !l.password.IsEmpty() }

// Skipped is the reason why a kubelet does not run a provider, of which it says nothing.
type Skipped string

// Error implements error.
func (s Skipped) Error() string { return string(s) }

// Command is the program of an entry with its arguments, as one would type it.
func (r Runner) Command(e Entry) string {
	return strings.Join(append([]string{filepath.Join(r.BinDir, e.Name)}, e.Args...), " ")
}

// Run runs an entry for an image, and reads its answer as strictly as a kubelet. A Skipped is the
// error where a kubelet would not run it. Errors are what the kubelet would log.
func (r Runner) Run(ctx context.Context, e Entry, image string) (Answer, error) {
	request, err := r.request(e, image)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(r.BinDir, e.Name), e.Args...) //nolint:gosec // what the kubelet runs
	var stdout, stderr capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, &stderr
	cmd.WaitDelay = time.Second
	cmd.Env = slices.Clone(r.Environ)
	for _, v := range e.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	said := cloudauth.Excerpt(strings.TrimSpace(stderr.kept.String()), 1000, r.Token)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Answer{}, fmt.Errorf("it ran for longer than %s, after which the kubelet kills it: %s", runTimeout, orNothing(said))
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %s", err, orNothing(said))
	}
	answer, err := r.decode(e, stdout.kept.Bytes())
	answer.Took, answer.Said = took, said
	return answer, err
}

func orNothing(said string) string {
	if said == "" {
		return "it said nothing"
	}
	return said
}

// request is what the kubelet writes to the provider's stdin.
func (r Runner) request(e Entry, image string) ([]byte, error) {
	request := map[string]any{"kind": "CredentialProviderRequest", "apiVersion": e.APIVersion, "image": image}
	if t := e.TokenAttributes; t != nil {
		switch {
		case r.Token.IsEmpty() && t.Require != nil && *t.Require:
			return nil, Skipped("it needs the token of a service account, and for pods without one (static pods) the kubelet does not run it; give --service-account-token-file to try it")
		case !r.Token.IsEmpty():
			annotations := map[string]string{}
			for _, key := range t.RequiredAnnotations {
				value, ok := r.Annotations[key]
				if !ok {
					return nil, Skipped("the service account has no annotation " + key + ", which requiredServiceAccountAnnotationKeys lists: the kubelet does not run it and says so only with -v=5; annotate the service account (here: --annotation), or list the key under optionalServiceAccountAnnotationKeys")
				}
				annotations[key] = value
			}
			for _, key := range t.OptionalAnnotations {
				if value, ok := r.Annotations[key]; ok {
					annotations[key] = value
				}
			}
			request["serviceAccountToken"] = r.Token.Reveal()
			request["serviceAccountAnnotations"] = annotations
		}
	}
	return json.Marshal(request)
}

// decode reads an answer. No error repeats any of it but names of fields.
func (r Runner) decode(e Entry, data []byte) (Answer, error) {
	tree, err := parseJSON(data)
	if err != nil {
		return Answer{}, errors.New("its answer is no JSON object, which the kubelet does not take")
	}
	var kind, version, cacheKey string
	var keep *string
	answer := Answer{Logins: map[string]Login{}, Cache: e.Duration(), Default: true}
	var d decoder
	d.object("", tree, map[string]func(string, any){
		"kind": d.text(&kind), "apiVersion": d.text(&version), "cacheKeyType": d.text(&cacheKey),
		"cacheDuration": func(path string, v any) {
			if v != nil {
				keep = new(string)
				d.duration(keep)(path, v)
			}
		},
		"auth": d.logins(answer.Logins),
	})
	if version != e.APIVersion {
		return Answer{}, fmt.Errorf("its answer has the apiVersion %q and the entry %q: the kubelet does not take it; write the entry's apiVersion as the provider speaks it", cloudauth.Excerpt(version, 80), e.APIVersion)
	}
	if kind != "CredentialProviderResponse" {
		return Answer{}, fmt.Errorf("its answer is of kind %q, which the kubelet does not take", cloudauth.Excerpt(kind, 80))
	}
	if len(d.findings) > 0 {
		return Answer{}, fmt.Errorf("the kubelet does not take its answer: the field %s is unknown, there twice or of the wrong type", d.findings[0].Field)
	}
	if !slices.Contains([]string{"Image", "Registry", "Global"}, cacheKey) {
		return Answer{}, fmt.Errorf("its answer has the cacheKeyType %q, and the kubelet takes only Image, Registry and Global", cloudauth.Excerpt(cacheKey, 40))
	}
	if keep != nil {
		parsed, err := time.ParseDuration(*keep)
		if err != nil {
			return Answer{}, errors.New("the cacheDuration of its answer is no time, which the kubelet does not take")
		}
		answer.Cache, answer.Default = parsed, false
	}
	answer.CacheKey = cacheKey
	return answer, r.echoed(e, answer)
}

// echoed finds a token that comes back as a password, which the kubelet takes only where it keeps
// answers by the token.
func (r Runner) echoed(e Entry, answer Answer) error {
	if r.Token.IsEmpty() || e.TokenAttributes == nil || e.TokenAttributes.CacheType == CacheToken {
		return nil
	}
	for _, login := range answer.Logins {
		if login.password.Reveal() == r.Token.Reveal() {
			return errors.New("its answer is the service account's token itself, which the kubelet takes only with cacheType: Token")
		}
	}
	return nil
}

// logins reads "auth".
func (d *decoder) logins(into map[string]Login) func(string, any) {
	return func(path string, v any) {
		pairs, ok := v.(yaml.MapSlice)
		if !ok && v != nil {
			d.wrong(path, v, "a map")
		}
		for _, p := range pairs {
			var user, password string
			d.object(path+".…", p.Value, map[string]func(string, any){"username": d.text(&user), "password": d.text(&password)})
			into[fmt.Sprint(p.Key)] = Login{User: user, password: cloudauth.NewSecret(password)}
		}
	}
}

// capped keeps the beginning of what is written to it.
type capped struct{ kept bytes.Buffer } // not embedded: what copies to a Buffer asks it to read by itself

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	if room := maxAnswer - c.kept.Len(); room < len(p) {
		return 0, fmt.Errorf("it wrote more than %d MiB: %w", maxAnswer>>20, io.ErrShortWrite)
	}
	return c.kept.Write(p)
}
