package serving

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/clientca"
)

// guard lets requests pass whose sender the API server knows (TokenReview, or a client
// certificate of the configured authorities) and permits (SubjectAccessReview of the path).
// It does what k8s.io/apiserver's delegated checks do, whose imports would double the binary: a test
// compares the two, and lists where they differ. What lets nobody pass has caches of its own: strangers
// can fill them, but evict nothing that is worth keeping while the API server is away.
type guard struct {
	opts   options.Auth
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	ca     *clientca.File // nil: client certificates are not looked at

	users    *utilcache.LRUExpireCache // sha256 of a token → *authenticationv1.UserInfo
	nobodies *utilcache.LRUExpireCache // sha256 of a token that nobody has
	allowed  *utilcache.LRUExpireCache // sha256 of a question
	denied   *utilcache.LRUExpireCache // sha256 of a question

	backoff wait.Backoff // of questions that failed for a moment
	pending pending
}

// cacheSize is the number of tokens, and of decisions, that each cache remembers.
const cacheSize = 1024

func newGuard(o options.Auth, tokens authenticationclient.TokenReviewInterface, access authorizationclient.SubjectAccessReviewInterface) (*guard, error) {
	g := &guard{opts: o, tokens: tokens, access: access,
		users: utilcache.NewLRUExpireCache(cacheSize), nobodies: utilcache.NewLRUExpireCache(cacheSize),
		allowed: utilcache.NewLRUExpireCache(cacheSize), denied: utilcache.NewLRUExpireCache(cacheSize),
		pending: pending{addresses: map[string]int{}},
		backoff: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}}
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
				if (status == http.StatusUnauthorized || status == http.StatusTooManyRequests) && r.ProtoMajor == 2 {
					w.Header().Set("Connection", "close") // strangers keep no connection on which streams cost little
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

// refuse returns the status with which the request is refused, 0 when it may pass.
func (g *guard) refuse(r *http.Request) int {
	leave, ok := g.pending.enter(r)
	if !ok {
		return http.StatusTooManyRequests
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), g.opts.RequestTimeout)
	defer cancel()
	logger := klog.FromContext(r.Context())
	who, err := g.authenticate(ctx, r)
	switch {
	case err != nil:
		logger.Error(err, "Client of the secure port could not be authenticated", "path", r.URL.Path)
		return http.StatusInternalServerError
	case who == nil:
		return http.StatusUnauthorized
	}
	allowed, err := g.authorize(ctx, who, strings.ToLower(r.Method), r.URL.Path)
	switch {
	case err != nil:
		logger.Error(err, "Client of the secure port could not be authorized", "path", r.URL.Path, "user", who.Username)
		return http.StatusInternalServerError
	case !allowed:
		logger.V(4).Info("Client of the secure port may not read this", "path", r.URL.Path, "user", who.Username)
		return http.StatusForbidden
	}
	return 0
}

// authenticate returns nil for a sender who is not known.
func (g *guard) authenticate(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	if who := g.certificateUser(r, time.Now()); who != nil {
		return who, nil
	}
	token := bearerToken(r.Header.Get("Authorization"))
	if token == "" {
		return nil, nil
	}
	key := sha256.Sum256([]byte(token))
	if known, ok := g.users.Get(key); ok {
		return known.(*authenticationv1.UserInfo), nil
	}
	if _, ok := g.nobodies.Get(key); ok {
		return nil, nil
	}
	// From verbosity 8 on, client-go logs the bodies of its requests: not those with tokens.
	silent := klog.NewContext(ctx, klog.Logger{})
	var review *authenticationv1.TokenReview
	if err := g.ask(silent, func(ctx context.Context) (err error) {
		review, err = g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return nil, fmt.Errorf("ask the API server about a token: %w", err)
	}
	switch {
	case review.Status.Authenticated:
		known := authenticated(review.Status.User)
		g.users.Add(key, known, g.opts.TokenTTL)
		return known, nil
	case review.Status.Error == "": // else it expired, is malformed, or the API server has erred: that is not remembered
		g.nobodies.Add(key, nil, g.opts.TokenTTL)
	}
	return nil, nil
}

// bearerToken is the token of an Authorization header, "" for none.
func bearerToken(header string) string {
	parts := strings.SplitN(strings.TrimSpace(header), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

// ask asks the API server, again if it or the way to it failed for a moment.
func (g *guard) ask(ctx context.Context, question func(context.Context) error) error {
	var err error
	ended := wait.ExponentialBackoffWithContext(ctx, g.backoff, func(ctx context.Context) (bool, error) {
		err = question(ctx)
		_, later := apierrors.SuggestsClientDelay(err)
		again := later || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
			apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
		return !again, nil
	})
	if err == nil {
		return ended // before the first try
	}
	return err
}

func (g *guard) authorize(ctx context.Context, who *authenticationv1.UserInfo, verb, path string) (bool, error) {
	if slices.Contains(who.Groups, user.SystemPrivilegedGroup) {
		return true, nil // the API server lets them do everything, too
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}
	question, err := json.Marshal(spec) // of everything that may matter for the answer
	if err != nil {
		return false, fmt.Errorf("ask the API server about a permission: %w", err)
	}
	key := sha256.Sum256(question) // paths may be long
	if _, ok := g.allowed.Get(key); ok {
		return true, nil
	}
	if _, ok := g.denied.Get(key); ok {
		return false, nil
	}
	var review *authorizationv1.SubjectAccessReview
	if err := g.ask(ctx, func(ctx context.Context) (err error) {
		review, err = g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return false, fmt.Errorf("ask the API server about a permission: %w", err)
	}
	if !review.Status.Allowed || review.Status.Denied {
		g.denied.Add(key, nil, g.opts.DenyTTL)
		return false, nil
	}
	g.allowed.Add(key, nil, g.opts.AllowTTL)
	return true, nil
}
