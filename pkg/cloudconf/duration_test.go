package cloudconf

import (
	"testing"
	"time"
)

func TestDurationIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5s": 5 * time.Second, " 1m30s ": 90 * time.Second, "1500ms": 1500 * time.Millisecond, "0s": 0, "-1s": -time.Second,
	} {
		var d, again Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want || d.Seconds() != int(want/time.Second) {
			t.Errorf("%q: %v of %d seconds, %v", text, d, d.Seconds(), err)
		}
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%q: written %v, read back as %v, %v", text, d, again, err)
		}
	}
	for _, text := range []string{"", "5", "5 apples"} {
		d := Duration(time.Second)
		if err := d.UnmarshalText([]byte(text)); err == nil || d != Duration(time.Second) {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}
