package cloudconf

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time span written as in a configuration file: "5s", "1m30s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 5s or 1m30s", text)
	}
	*d = Duration(v)
	return nil
}

// Seconds are its whole seconds.
func (d Duration) Seconds() int { return int(time.Duration(d) / time.Second) }

// String writes the duration as UnmarshalText reads it.
func (d Duration) String() string { return time.Duration(d).String() }
