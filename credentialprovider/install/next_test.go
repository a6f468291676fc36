package install

import (
	"runtime"
	"strings"
	"testing"
)

// An upgrade that ends at any step is no hindrance for the one to the version after: what has taken its place is known
// as ours before it does.
func TestNextVersionAfterAnUpgradeThatEnded(t *testing.T) {
	for at := 1; ; at++ {
		dir := t.TempDir()
		run(t, plan(dir, "1"))
		two, left, ended := plan(dir, "2"), at, make(chan bool, 1)
		two.step = func() {
			if left--; left == 0 {
				runtime.Goexit()
			}
		}
		go func() {
			done := false
			defer func() { ended <- done }()
			_, err := two.Run(t.Context())
			if done = true; err != nil {
				t.Error(err)
			}
		}()
		if <-ended {
			if at < 15 {
				t.Errorf("only %d steps: this test would check little", at)
			}
			return
		}
		if _, err := plan(dir, "3").Run(t.Context()); err != nil {
			t.Errorf("after step %d: %v", at, err)
		}
		if now := tree(t, two); !strings.Contains(now["providers.yaml"], "of 3") || !strings.Contains(now["provider"], "echo 3") {
			t.Errorf("after step %d: %v", at, now)
		}
	}
}
