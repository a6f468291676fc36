package cloudauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const hidden = "pa55w0rd-of-nobody"

// holder has a Secret in an unexported field, where fmt calls no methods.
type holder struct {
	Open   cloudauth.Secret
	closed cloudauth.Secret
}

func TestSecretIsNeverPrinted(t *testing.T) {
	s := cloudauth.NewSecret(hidden)
	h := holder{Open: s, closed: s}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "secret", s, "holder", h)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "holder", &h)
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged)))
	logger.Info("x", "secret", s, "holder", h, "pointer", &h, "format", klog.Format(h))
	outputs := map[string]string{"logs": logged.String(), "error": fmt.Errorf("cannot use %w %v", errors.New("x"), s).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		for name, value := range map[string]any{"value": s, "pointer": &s, "holder": h, "holder pointer": &h, "slice": []cloudauth.Secret{s}, "map": map[string]holder{"a": h}} {
			outputs[verb+" of "+name] = fmt.Sprintf(verb, value)
		}
	}
	for name, encode := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal} {
		data, err := encode(h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		outputs[name] = string(data)
	}
	for name, out := range outputs {
		if strings.Contains(out, hidden) || strings.Contains(out, fmt.Sprintf("%x", hidden)) {
			t.Errorf("%s shows the secret: %s", name, out)
		}
	}
	if !strings.Contains(outputs["%v of value"], cloudauth.Redacted) {
		t.Errorf("a secret prints as %q, want %q", outputs["%v of value"], cloudauth.Redacted)
	}
}

func TestSecretValue(t *testing.T) {
	var zero, decoded cloudauth.Secret
	if !zero.IsEmpty() || zero.Reveal() != "" || zero.String() != "" {
		t.Errorf("the zero Secret is not empty: %q", zero.Reveal())
	}
	if err := json.Unmarshal([]byte(`"`+hidden+`"`), &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Reveal() != hidden || !decoded.Equal(cloudauth.NewSecret(hidden)) || decoded.Equal(zero) {
		t.Errorf("a decoded Secret holds %q, want %q", decoded.Reveal(), hidden)
	}
}

func TestExcerpt(t *testing.T) {
	secret := cloudauth.NewSecret(hidden)
	for name, tt := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short":            {"all is well", 20, "all is well"},
		"lines":            {"one\r\n two\t three\x00\x1b[31m", 40, "one two three [31m"},
		"secret":           {"user:" + hidden + "!", 40, "user:[redacted]!"},
		"cut":              {"abcdefghij", 6, "abc…"},
		"cut in a letter":  {"äöüäöü", 7, "äö…"},
		"invalid UTF-8":    {"a\xffb", 10, "a?b"},
		"secret at border": {strings.Repeat("x", 37) + hidden + strings.Repeat("y", 100), 40, strings.Repeat("x", 37) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cloudauth.Excerpt(tt.text, tt.limit, secret); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	long := cloudauth.NewSecret(hidden + "-and-more")
	short, tiny := cloudauth.NewSecret(hidden), cloudauth.NewSecret("abc")
	text := "a " + long.Reveal() + " b " + hidden + " abc"
	if got, want := cloudauth.Redact(text, cloudauth.Secret{}, tiny, short, long), "a [redacted] b [redacted] abc"; got != want {
		t.Errorf("Redact: %q, want %q", got, want)
	}
	// A text that was cut within a secret, and one that is long enough to be cut within it here.
	for n := range len(hidden) {
		for _, text := range []string{hidden + strings.Repeat("x", 99) + hidden[:n], hidden + strings.Repeat("x", 100-len(hidden)) + hidden[n:] + hidden} {
			got := cloudauth.RedactLong(text, 50, short)
			if !strings.HasPrefix(got, "[redacted]xxx") || strings.Contains(got, hidden[:3]) || len(got) < 30 || len(got) > 60 {
				t.Errorf("RedactLong(%q): %q", text, got)
			}
		}
	}
	if got := cloudauth.RedactLong("a "+hidden, 50, short); got != "a [redacted]" {
		t.Errorf("RedactLong of a short text: %q", got)
	}
}

// FuzzExcerpt checks that no part of a secret of which a third or more is left survives, and the limit.
func FuzzExcerpt(f *testing.F) {
	f.Add("before ", " after", 30)
	f.Add(strings.Repeat("x", 200), "y", 40)
	f.Fuzz(func(t *testing.T, before, after string, limit int) {
		if limit < 3 || limit > 1000 {
			return
		}
		got := cloudauth.Excerpt(before+hidden+after, limit, cloudauth.NewSecret(hidden))
		if len(got) > limit {
			t.Errorf("%d bytes, limit %d: %q", len(got), limit, got)
		}
		if part := hidden[:8]; strings.Contains(got, part) && !strings.Contains(before+after, part) {
			t.Errorf("a part of the secret is left: %q", got)
		}
		if strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("more than one line: %q", got)
		}
	})
}
