package entries

import "testing"

// A path that may be the same on a node stays.
func TestSystemPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/etc/isthmus/options.yaml": true, "/opt/x": true, "/var/lib/isthmus/x": true, `C:\etc\options.yaml`: true, "c:/ProgramData/x": true,
		"/home/me/x": false, "/root/x": false, "/tmp/x": false, "/Users/me/x": false, "/etc/../tmp/x": false, "/var/tmp/x": false, "/etcetera/x": false,
		"x": false, `C:\Users\me\x`: false, `C:\etc\..\Users\x`: false, "c:/users/me/x": false, "C:x": false,
	} {
		if got := isSystemPath(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
