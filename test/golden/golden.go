// Package golden compares what a test got with a file of the repository.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is a flag of each test that imports this package.
var update = flag.Bool("update", false, "write the golden files anew")

// Updating reports whether the test was called with -update.
func Updating() bool { return *update }

// Compare fails t if got differs from file, whose path is relative to the test's folder. With
// -update it writes the file first: then read what the difference says.
func Compare[S string | []byte](t testing.TB, file string, got S) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update and read what it says", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), -update accepts it:\n%s", file, diff)
	}
}
