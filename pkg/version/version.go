// Package version tells which version of Isthmus a binary is.
package version

import "runtime/debug"

// Version is set when a release is built:
// -ldflags "-X github.com/isthmus-cloud/isthmus/pkg/version.Version=v1.2.3". Read it with String.
var Version = "dev"

// String returns the version: the one set at the build, else that of the module or of the
// commit that Go recorded, else "dev".
func String() string {
	if Version != "dev" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if len(revision) >= 12 {
		return Version + "-" + revision[:12] + dirty
	}
	return Version
}
