package cloudconf

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

type settings struct {
	Login  string
	Limits map[string]int
	Names  []string
}

// log is what was said since it was read last.
type log struct {
	mu   sync.Mutex
	text []byte
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *log) read() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

// Sections that are read only at the start are not taken over by halves, and the log says so, once.
func TestChangedSectionsNeedARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "cloud.json")
		f := File[settings]{Path: path, InUse: &settings{Login: "a"},
			Parse: func(data []byte) (*settings, error) {
				s := &settings{}
				return s, json.Unmarshal(data, s)
			},
			Section: func(f reflect.StructField) string {
				if f.Name == "Login" {
					return ""
				}
				return strings.ToLower(f.Name)
			}}
		var out log
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))))
		defer cancel()
		done := make(chan error)
		go func() { done <- f.Watch(ctx) }()
		for _, step := range []struct{ name, content, want string }{
			{"nothing", `{"Login": "a"}`, ""},
			{"what needs no restart", `{"Login": "bb"}`, ""},
			{"two sections", `{"Limits": {"a": 1}, "Names": ["b"]}`, `cloud.json changed in sections that are read only at the start: restart to use them; until then all of the old ones stay in use" sections="limits, names"`},
			{"the same again", `{"Limits": {"a": 1}, "Names":   ["b"]}`, ""},
			{"a mistake", `{"Names": 1}`, "has mistakes now"},
			{"the mistake again", `{"Names":    1}`, ""},
			{"back", `{}`, "again what is in use"},
			{"gone", "", ""},
		} {
			if step.content == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(poll + time.Millisecond)
			synctest.Wait()
			if got := out.read(); !strings.Contains(got, step.want) || step.want == "" && got != "" {
				t.Errorf("%s: the log is %q, want %q", step.name, got, step.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNoFileIsNotWatched(t *testing.T) {
	if err := (File[settings]{}).Watch(t.Context()); err != nil {
		t.Error(err)
	}
}
