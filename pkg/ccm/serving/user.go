package serving

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/clientca"
)

// authenticated adds the group of all who are authenticated, unless the user has it or is a stranger.
func authenticated(u authenticationv1.UserInfo) *authenticationv1.UserInfo {
	if u.Username != user.Anonymous && !slices.Contains(u.Groups, user.AllAuthenticated) && !slices.Contains(u.Groups, user.AllUnauthenticated) {
		u.Groups = append(slices.Clone(u.Groups), user.AllAuthenticated)
	}
	return &u
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
	uid, ok := uidOf(leaf)
	if !ok || clientca.Verify(r.TLS.PeerCertificates, roots, now) != nil || leaf.Subject.CommonName == "" {
		return nil
	}
	sum := sha256.Sum256(leaf.Raw)
	return authenticated(authenticationv1.UserInfo{
		Username: leaf.Subject.CommonName, UID: uid, Groups: leaf.Subject.Organization,
		Extra: map[string]authenticationv1.ExtraValue{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	})
}

// uidOf is the user's UID in a certificate, "" for none; false if there are several, or one that is none.
func uidOf(leaf *x509.Certificate) (uid string, ok bool) {
	for _, n := range leaf.Subject.Names {
		if !n.Type.Equal(asn1.X509UID()) {
			continue
		}
		text, isText := n.Value.(string)
		if !isText || text == "" || uid != "" {
			return "", false
		}
		uid = text
	}
	return uid, true
}
