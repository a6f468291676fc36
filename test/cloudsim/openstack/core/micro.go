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
	malformed  func(value string) *apiError
	outOfRange func(value string) *apiError
}

var versionString = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// negotiate sets the call's microversion from its headers, or refuses as the service does.
func (c *call) negotiate() error {
	m := c.svc.micro
	if m == nil {
		return nil
	}
	c.setMicro(m.min)
	value := m.requested(c.r.Header)
	switch value {
	case "":
		return nil
	case "latest":
		c.setMicro(m.max)
		return nil
	}
	match := versionString.FindStringSubmatch(value)
	if match == nil {
		c.version = ""
		return m.malformed(value)
	}
	c.version = value
	major, errMajor := strconv.Atoi(match[1])
	minor, errMinor := strconv.Atoi(match[2])
	if errMajor != nil || errMinor != nil || major != m.major || minor < m.min || minor > m.max {
		return m.outOfRange(value)
	}
	c.micro = minor
	return nil
}

func (c *call) setMicro(minor int) {
	c.micro = minor
	c.version = strconv.Itoa(c.svc.micro.major) + "." + strconv.Itoa(minor)
}

// requested returns the version asked for as it stands, "" for none.
func (m *microRange) requested(h http.Header) string {
	for _, line := range h.Values("OpenStack-API-Version") {
		for part := range strings.SplitSeq(line, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(part), " ")
			if strings.EqualFold(name, m.name) {
				return strings.TrimSpace(v)
			}
		}
	}
	if m.legacy != "" {
		return h.Get(m.legacy)
	}
	return ""
}

// describeVersion adds the headers that tell the microversion and the request's id.
func (c *call) describeVersion(h http.Header, requestID string) {
	if c.svc.name == "identity" {
		h.Add("Vary", "X-Auth-Token")
	}
	if c.svc.name == "compute" {
		h.Set("X-Compute-Request-Id", requestID)
	}
	m := c.svc.micro
	if m == nil || c.version == "" {
		return
	}
	h.Set("OpenStack-API-Version", m.name+" "+c.version)
	h.Add("Vary", "OpenStack-API-Version")
	if m.legacy != "" {
		h.Set(m.legacy, c.version)
		h.Add("Vary", m.legacy)
	}
}
