package registration

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stamp says who wanted a configuration as it is: replicas that want the same have the same
// fingerprint, and who wanted something later has the higher number. The zero stamp is none.
type stamp struct {
	number      int64
	fingerprint string
}

// parseStamp returns the zero stamp for what is none.
func parseStamp(s string) stamp {
	number, fingerprint, ok := strings.Cut(s, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || n <= 0 || n >= maxNumber || len(fingerprint) != fingerprintLen {
		return stamp{}
	}
	return stamp{n, fingerprint}
}

const (
	fingerprintLen = 16
	// maxNumber is far from what rollouts reach: a higher one is somebody's joke.
	maxNumber = 1 << 53
)

func (s stamp) String() string { return fmt.Sprintf("%d-%s", s.number, s.fingerprint) }

// before reports whether t prevails over s. Of two replicas that wanted different things at
// the same moment, the fingerprint decides.
func (s stamp) before(t stamp) bool {
	return cmp.Or(cmp.Compare(s.number, t.number), cmp.Compare(s.fingerprint, t.fingerprint)) < 0
}

// stampOf returns the stamp of c; zero when it has none or was changed since.
func stampOf(c *configuration) stamp {
	s := parseStamp(c.Annotations[stampAnnotation])
	if s.fingerprint != fingerprint(c) {
		return stamp{}
	}
	return s
}

// fingerprint identifies what c asks of the API server, but for the CAs to trust.
func fingerprint(c *configuration) string {
	content := struct {
		Labels   map[string]string
		Inject   string
		Roots    string `json:",omitempty"`
		Webhooks []admissionregistrationv1.MutatingWebhook
	}{map[string]string{nameLabel: c.Labels[nameLabel]}, c.Annotations[injectAnnotation], c.Annotations[rootsAnnotation], nil}
	for _, w := range c.Webhooks {
		w = *w.DeepCopy()
		w.ClientConfig.CABundle = nil
		slices.SortFunc(w.MatchConditions, func(a, b admissionregistrationv1.MatchCondition) int { return cmp.Compare(a.Name, b.Name) })
		content.Webhooks = append(content.Webhooks, w)
	}
	slices.SortFunc(content.Webhooks, byName)
	data, err := json.Marshal(content)
	if err != nil {
		return "" // not possible: the API server's types
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:fingerprintLen]
}

// isOurs reports whether c was made by this package, or from the manifests. Nothing else is
// ever changed or removed.
func isOurs(c *configuration) bool {
	return c.Labels[nameLabel] == Name || applied(c)
}

// applied reports whether this package has written c.
func applied(c *configuration) bool {
	return slices.ContainsFunc(c.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// lastWriter names who else changed c last, as far as the API server noted it.
func lastWriter(c *configuration) string {
	last := "none known"
	if c == nil {
		return last
	}
	var at metav1.Time
	for _, f := range c.ManagedFields {
		if f.Manager != FieldManager && f.Time != nil && !f.Time.Before(&at) {
			last, at = f.Manager, *f.Time
		}
	}
	return last
}
