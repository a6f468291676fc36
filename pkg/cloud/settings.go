package cloud

import "strconv"

// String returns the value of name, or def when it is unset. A set but empty value is a value.
func (s Settings) String(name, def string) string {
	if v, ok := s[name]; ok {
		return v
	}
	return def
}

// Bool returns the value of name, or def when it is neither true nor false.
func (s Settings) Bool(name string, def bool) bool {
	switch s[name] {
	case "true":
		return true
	case "false":
		return false
	}
	return def
}

// Int returns the value of name, or def when it is unset or not an integer.
func (s Settings) Int(name string, def int) int {
	if v, err := strconv.Atoi(s[name]); err == nil {
		return v
	}
	return def
}

// Has reports whether name is set.
func (s Settings) Has(name string) bool {
	_, ok := s[name]
	return ok
}
