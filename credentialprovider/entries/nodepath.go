package entries

import (
	"path"
	"slices"
	"strings"
)

// isNodePath reports whether a path is absolute, on Linux or on Windows.
func isNodePath(file string) bool { return strings.HasPrefix(file, "/") || isWindowsPath(file) }

func isWindowsPath(file string) bool {
	return len(file) > 2 && file[1] == ':' && (file[2] == '\\' || file[2] == '/')
}

// SystemDirs are where the same path may well be a node's. Elsewhere, in somebody's home or /tmp, it is this machine's.
func SystemDirs() []string { return []string{"/etc/", "/opt/", "/run/", "/usr/", "/var/lib/"} }

// isSystemPath reports whether a path is in one of them or, on Windows, outside of what is somebody's own.
func isSystemPath(file string) bool {
	if isWindowsPath(file) {
		dir, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(file[3:], "/", `\`)), `\`)
		return dir != "users" && dir != "temp" && dir != "documents and settings" && !strings.Contains(file, "..")
	}
	return slices.ContainsFunc(SystemDirs(), func(dir string) bool { return strings.HasPrefix(path.Clean(file), dir) })
}
