package core

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Micro is the microversions that a service offers.
type Micro struct {
	// Name goes with the version in OpenStack-API-Version.
	Name string
	// Legacy is an older header with the bare version; "" for none.
	Legacy string
	// Major is the number before the dot; min and max are the numbers after it.
	Major, Min, Max int
	// Malformed and outOfRange make the refusals.
	Malformed  func(value string) *Error
	OutOfRange func(value string) *Error
}

var versionString = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// negotiate sets the call's microversion from its headers, or refuses as the service does.
func (c *Call) negotiate() error {
	m := c.svc.Micro
	if m == nil {
		return nil
	}
	c.setMicro(m.Min)
	value := m.requested(c.Request.Header)
	switch value {
	case "":
		return nil
	case "latest":
		c.setMicro(m.Max)
		return nil
	}
	match := versionString.FindStringSubmatch(value)
	if match == nil {
		c.Version = ""
		return m.Malformed(value)
	}
	c.Version = value
	major, errMajor := strconv.Atoi(match[1])
	minor, errMinor := strconv.Atoi(match[2])
	if errMajor != nil || errMinor != nil || major != m.Major || minor < m.Min || minor > m.Max {
		return m.OutOfRange(value)
	}
	c.Micro = minor
	return nil
}

func (c *Call) setMicro(minor int) {
	c.Micro = minor
	c.Version = strconv.Itoa(c.svc.Micro.Major) + "." + strconv.Itoa(minor)
}

// requested returns the version asked for as it stands, "" for none.
func (m *Micro) requested(h http.Header) string {
	for _, line := range h.Values("OpenStack-API-Version") {
		for part := range strings.SplitSeq(line, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(part), " ")
			if strings.EqualFold(name, m.Name) {
				return strings.TrimSpace(v)
			}
		}
	}
	if m.Legacy != "" {
		return h.Get(m.Legacy)
	}
	return ""
}

// describeVersion adds the headers that tell the microversion and the request's id.
func (c *Call) describeVersion(h http.Header, requestID string) {
	if c.svc.Name == "identity" {
		h.Add("Vary", "X-Auth-Token")
	}
	if c.svc.Name == "compute" {
		h.Set("X-Compute-Request-Id", requestID)
	}
	m := c.svc.Micro
	if m == nil || c.Version == "" {
		return
	}
	h.Set("OpenStack-API-Version", m.Name+" "+c.Version)
	h.Add("Vary", "OpenStack-API-Version")
	if m.Legacy != "" {
		h.Set(m.Legacy, c.Version)
		h.Add("Vary", m.Legacy)
	}
}
