// Package cloudconf is what clouds' configuration files share: values of theirs, and who watches the file and
// says in the log when it changed in what only a restart takes over.
//
// It takes nothing over itself: credentials that change are their session's matter.
package cloudconf

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// poll is how often the file is looked at.
const poll = 5 * time.Second

// File is a configuration file, and what was made of it at the start.
type File[T any] struct {
	// Path is the file's; nothing is watched where it is empty.
	Path string
	// InUse is what was read at the start.
	InUse *T
	// Parse reads the file's content; its error says what is wrong with it.
	Parse func(data []byte) (*T, error)
	// Section is how people call the part of the file that a field of T has, "" for one that needs no restart.
	Section func(field reflect.StructField) string
}

// Watch says what changed, each change once, until ctx ends; then it returns nil.
func (f File[T]) Watch(ctx context.Context) error {
	if f.Path == "" {
		return nil
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	seen, said := cloudauth.Fingerprint(f.Path), ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if now := cloudauth.Fingerprint(f.Path); now != seen {
			seen = now
			said = f.compare(ctx, said)
		}
	}
}

// compare says what differs between the file and what is in use, unless it was said last;
// it returns what there is to be said.
func (f File[T]) compare(ctx context.Context, said string) string {
	log, name := klog.FromContext(ctx), filepath.Base(f.Path)
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return said // whoever has its credentials from there says so
	}
	now, err := f.Parse(data)
	if err != nil {
		if said != err.Error() {
			log.Error(err, name+" changed and has mistakes now: correct them, the next start would fail")
		}
		return err.Error()
	}
	sections := strings.Join(f.changed(now), ", ")
	switch sections {
	case said:
	case "":
		log.Info(name + " is again what is in use")
	default:
		log.Info(name+" changed in sections that are read only at the start: restart to use them; until then all of the old ones stay in use", "sections", sections)
	}
	return sections
}

// changed names the sections that are not as they are in use.
func (f File[T]) changed(now *T) []string {
	var out []string
	a, b := reflect.ValueOf(f.InUse).Elem(), reflect.ValueOf(now).Elem()
	for n := range a.NumField() {
		name := f.Section(a.Type().Field(n))
		if name != "" && !reflect.DeepEqual(a.Field(n).Interface(), b.Field(n).Interface()) {
			out = append(out, name)
		}
	}
	return out
}
