package ccm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/clientca"
)

// guard lets requests pass whose sender the API server knows (TokenReview, or a client
// certificate of the configured authorities) and permits (SubjectAccessReview of the path).
// It does with two small caches what k8s.io/apiserver's delegating authenticator does,
// whose imports would double the binary.
type guard struct {
	opts   AuthOptions
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	ca     *clientca.File // nil: client certificates are not looked at

	users     *utilcache.LRUExpireCache // sha256 of the token → *authenticationv1.UserInfo, nil for "not known"
	decisions *utilcache.LRUExpireCache // sha256 of the question → bool
}

// cacheSize is the number of tokens and of decisions that are remembered.
const cacheSize = 1024

func newGuard(o AuthOptions, tokens authenticationclient.TokenReviewInterface, access authorizationclient.SubjectAccessReviewInterface) (*guard, error) {
	g := &guard{opts: o, tokens: tokens, access: access,
		users: utilcache.NewLRUExpireCache(cacheSize), decisions: utilcache.NewLRUExpireCache(cacheSize)}
	if o.ClientCAFile != "" {
		ca, err := clientca.Open(o.ClientCAFile, time.Now())
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		g.ca = ca
	}
	return g, nil
}

// wrap guards next.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.open(r.URL.Path) {
			if status := g.refuse(r); status != 0 {
				if status == http.StatusUnauthorized {
					w.Header().Set("WWW-Authenticate", "Bearer")
				}
				http.Error(w, http.StatusText(status), status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// open reports whether everyone may read path.
func (g *guard) open(path string) bool {
	return slices.ContainsFunc(g.opts.AlwaysAllowPaths, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return path == p || wild && strings.HasPrefix(path, prefix)
	})
}

// checkPaths returns an error for each of --authorization-always-allow-paths that open
// would never match, or not as it is meant.
func checkPaths(paths []string) []error {
	var errs []error
	for _, p := range paths {
		if i := strings.Index(p, "*"); !strings.HasPrefix(p, "/") || i >= 0 && i < len(p)-1 {
			errs = append(errs, fmt.Errorf("--authorization-always-allow-paths: %q is no path such as /healthz or, for all that begin so, /healthz/*", p))
		}
	}
	return errs
}

// refuse returns the status with which the request is refused, 0 when it may pass.
func (g *guard) refuse(r *http.Request) int {
	ctx, cancel := context.WithTimeout(r.Context(), g.opts.RequestTimeout)
	defer cancel()
	logger := klog.FromContext(r.Context())
	user, err := g.authenticate(ctx, r)
	switch {
	case err != nil:
		logger.Error(err, "Client of the secure port could not be authenticated", "path", r.URL.Path)
		return http.StatusInternalServerError
	case user == nil:
		return http.StatusUnauthorized
	}
	allowed, err := g.authorize(ctx, user, strings.ToLower(r.Method), r.URL.Path)
	switch {
	case err != nil:
		logger.Error(err, "Client of the secure port could not be authorized", "path", r.URL.Path, "user", user.Username)
		return http.StatusInternalServerError
	case !allowed:
		logger.V(4).Info("Client of the secure port may not read this", "path", r.URL.Path, "user", user.Username)
		return http.StatusForbidden
	}
	return 0
}

// authenticate returns nil for a sender who is not known.
func (g *guard) authenticate(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	if user := g.certificateUser(r, time.Now()); user != nil {
		return user, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return nil, nil
	}
	key := sha256.Sum256([]byte(token))
	if known, ok := g.users.Get(key); ok {
		return known.(*authenticationv1.UserInfo), nil
	}
	// From verbosity 8 on, client-go logs the bodies of its requests: not those with tokens.
	silent := klog.NewContext(ctx, klog.Logger{})
	review, err := g.tokens.Create(silent, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the API server about a token: %w", err)
	}
	var user *authenticationv1.UserInfo
	switch {
	case review.Status.Authenticated:
		user = &review.Status.User
	case review.Status.Error != "":
		return nil, nil // an expired or malformed token; not remembered, as the API server may have erred
	}
	g.users.Add(key, user, g.opts.TokenTTL)
	return user, nil
}

// certificateUser returns the user of the client certificate, if there is a valid one.
func (g *guard) certificateUser(r *http.Request, now time.Time) *authenticationv1.UserInfo {
	if g.ca == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	roots, err := g.ca.Roots(now)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "The authorities of client certificates could not be read again, those read last count")
	}
	leaf := r.TLS.PeerCertificates[0]
	if clientca.Verify(r.TLS.PeerCertificates, roots, now) != nil || leaf.Subject.CommonName == "" {
		return nil
	}
	// The API server adds this group to everyone it authenticates.
	groups := append(slices.Clone(leaf.Subject.Organization), "system:authenticated")
	return &authenticationv1.UserInfo{Username: leaf.Subject.CommonName, Groups: groups}
}

func (g *guard) authorize(ctx context.Context, user *authenticationv1.UserInfo, verb, path string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}
	question, err := json.Marshal(spec) // of everything that may matter for the answer
	if err != nil {
		return false, fmt.Errorf("ask the API server about a permission: %w", err)
	}
	key := sha256.Sum256(question) // paths may be long
	if known, ok := g.decisions.Get(key); ok {
		return known.(bool), nil
	}
	review, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the API server about a permission: %w", err)
	}
	allowed, ttl := review.Status.Allowed && !review.Status.Denied, g.opts.DenyTTL
	if allowed {
		ttl = g.opts.AllowTTL
	}
	g.decisions.Add(key, allowed, ttl)
	return allowed, nil
}
