package serving

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// component is the manager's name in /statusz and /flagz.
const component = "cloud-controller-manager"

// zpagesVersion is that of the objects of /statusz and /flagz, of KEP-4827 and KEP-4828. The API server's packages serve these paths,
// too, but would double the program: their handlers are what tests compare ours with.
const (
	zpagesGroup   = "config.k8s.io"
	zpagesVersion = "v1beta1"
)

// objectMeta names the component.
type objectMeta struct {
	Name string `json:"name"`
}

// statusz is the Statusz of k8s.io/apiserver/pkg/server/statusz/api/v1beta1.
type statusz struct {
	Kind          string     `json:"kind"`
	APIVersion    string     `json:"apiVersion"`
	Metadata      objectMeta `json:"metadata"`
	StartTime     time.Time  `json:"startTime"`
	UptimeSeconds int64      `json:"uptimeSeconds"`
	GoVersion     string     `json:"goVersion"`
	BinaryVersion string     `json:"binaryVersion"`
	Paths         []string   `json:"paths"`
}

// flagz is the Flagz of k8s.io/apiserver/pkg/server/flagz/api/v1beta1.
type flagz struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   objectMeta        `json:"metadata"`
	Flags      map[string]string `json:"flags,omitempty"`
}

// handleStatusz serves what the process is: since when it runs, its version, and which paths it has.
func handleStatusz(start time.Time, now func() time.Time, paths []string) http.Handler {
	return zpage("Statusz", func() any {
		return &statusz{
			Kind: "Statusz", APIVersion: zpagesGroup + "/" + zpagesVersion, Metadata: objectMeta{component},
			StartTime: start.UTC().Truncate(time.Second), UptimeSeconds: max(0, int64(now().Sub(start)/time.Second)),
			GoVersion: runtime.Version(), BinaryVersion: version.String(), Paths: paths,
		}
	}, func(b *strings.Builder) {
		up := now().Sub(start)
		fmt.Fprintf(b, "\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n\nPaths: %s\n", start.UTC().Format(time.UnixDate),
			up/time.Hour, up/time.Minute%60, up/time.Second%60, runtime.Version(), version.String(), strings.Join(paths, " "))
	})
}

// handleFlagz serves the values of all flags. None of them holds a secret: those are in files that flags name.
func handleFlagz(flags map[string]string) http.Handler {
	return zpage("Flagz", func() any {
		return &flagz{Kind: "Flagz", APIVersion: zpagesGroup + "/" + zpagesVersion, Metadata: objectMeta{component}, Flags: flags}
	}, func(b *strings.Builder) {
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			fmt.Fprintf(b, "%s=%s\n", name, flags[name])
		}
	})
}

// zpage serves an object as text, or to those who name its kind and version as JSON or YAML, as the API server's packages do.
func zpage(kind string, object func() any, text func(*strings.Builder)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		var body []byte
		var err error
		switch format := negotiate(r.Header.Get("Accept"), kind); format {
		case "text/plain":
			var b strings.Builder
			fmt.Fprintf(&b, "\n%s %s\nWarning: this text is for people, and changes: programs ask for JSON with the header\n"+
				"Accept: application/json;g=%s;v=%s;as=%s\n", component, strings.ToLower(kind), zpagesGroup, zpagesVersion, kind)
			text(&b)
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			body = []byte(b.String())
		case "application/json":
			w.Header().Set("Content-Type", format)
			body, err = json.Marshal(object())
		case "application/yaml":
			w.Header().Set("Content-Type", format)
			body, err = yaml.Marshal(object())
		default:
			http.Error(w, fmt.Sprintf("acceptable are text/plain, and application/json or application/yaml with ;g=%s;v=%s;as=%s", zpagesGroup, zpagesVersion, kind), http.StatusNotAcceptable)
			return
		}
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Serve "+kind)
			http.Error(w, "it cannot be encoded; the log says why", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body) // a client that left needs no answer
	})
}

// negotiate returns the media type that the header Accept asks for, "" for none that is served.
func negotiate(accept, kind string) string {
	if strings.TrimSpace(accept) == "" {
		return "text/plain"
	}
	for _, a := range goautoneg.ParseAccept(accept) {
		object := a.Params["g"] == zpagesGroup && a.Params["v"] == zpagesVersion && a.Params["as"] == kind
		named := a.Params["as"] != ""
		for _, format := range []string{"application/json", "application/yaml", "text/plain"} {
			major, minor, _ := strings.Cut(format, "/")
			fits := (a.Type == "*" || a.Type == major) && (a.SubType == "*" || a.SubType == minor)
			if fits && (object && major == "application" || !named && major == "text") {
				return format
			}
		}
	}
	return ""
}
