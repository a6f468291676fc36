package openstack

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// microRange is the microversions that a service offers.
type microRange struct {
	// name goes with the version in OpenStack-API-Version.
	name string
	// legacy is an older header with the bare version; "" for none.
	legacy string
	// major is the number before the dot; min and max are the numbers after it.
	major, min, max int
	// malformed and outOfRange make the refusals.
	malformed  func(header, value string) *apiError
	outOfRange func(value string) *apiError
}

var versionString = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// negotiate sets the call's microversion from its headers, or refuses as the service does.
func (c *call) negotiate() error {
	m := c.svc.micro
	if m == nil {
		return nil
	}
	c.micro = m.min
	header, value := m.requested(c.r.Header)
	switch value {
	case "":
		return nil
	case "latest":
		c.micro = m.max
		return nil
	}
	match := versionString.FindStringSubmatch(value)
	if match == nil {
		return m.malformed(header, value)
	}
	major, errMajor := strconv.Atoi(match[1])
	minor, errMinor := strconv.Atoi(match[2])
	if errMajor != nil || errMinor != nil || major != m.major || minor < m.min || minor > m.max {
		return m.outOfRange(value)
	}
	c.micro = minor
	return nil
}

// requested returns the version asked for as it stands, "" for none.
func (m *microRange) requested(h http.Header) (header, value string) {
	for _, line := range h.Values("OpenStack-API-Version") {
		for part := range strings.SplitSeq(line, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(part), " ")
			if strings.EqualFold(name, m.name) {
				return "OpenStack-API-Version", strings.TrimSpace(v)
			}
		}
	}
	if m.legacy != "" {
		return m.legacy, h.Get(m.legacy)
	}
	return "", ""
}

// describeVersion adds the headers that tell the microversion and the request's id.
func (c *call) describeVersion(h http.Header, requestID string) {
	m := c.svc.micro
	if m == nil {
		return
	}
	if c.svc.name == "compute" {
		h.Set("X-Compute-Request-Id", requestID)
	}
	if c.micro == 0 {
		return
	}
	v := strconv.Itoa(m.major) + "." + strconv.Itoa(c.micro)
	h.Set("OpenStack-API-Version", m.name+" "+v)
	h.Add("Vary", "OpenStack-API-Version")
	if m.legacy != "" {
		h.Set(m.legacy, v)
		h.Add("Vary", m.legacy)
	}
}
