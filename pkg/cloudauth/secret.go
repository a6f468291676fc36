package cloudauth

import (
	"fmt"
	"io"
)

// Redacted is what stands wherever a secret would be printed.
const Redacted = "[redacted]"

// Secret is a string that must not be seen: whatever prints, logs or encodes it gets
// Redacted instead ("" for an empty one). Only Reveal gives the value. The zero Secret is
// empty and ready to use; a Secret is decoded from text (cloud.conf, JSON, YAML).
//
// The value is held behind a pointer, so that even printing a struct whose unexported field
// holds a Secret, where fmt calls no methods, shows an address and not the value.
type Secret struct{ value *string }

// NewSecret returns a Secret that holds value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the value, for the request that needs it and for nothing else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsEmpty reports whether there is no value.
func (s Secret) IsEmpty() bool { return s.Reveal() == "" }

// Equal reports whether both hold the same value.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String implements fmt.Stringer without the value.
func (s Secret) String() string {
	if s.IsEmpty() {
		return ""
	}
	return Redacted
}

// Format implements fmt.Formatter: every verb prints what String returns.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText implements encoding.TextMarshaler (JSON, YAML, structured logs) without the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: text is the value.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
