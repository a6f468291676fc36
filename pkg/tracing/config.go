package tracing

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/yaml"
)

const (
	// group is the API group of kube-apiserver's file, of which any version will do: they have the same fields.
	group = "apiserver.config.k8s.io/"
	kind  = "TracingConfiguration"
	// endpointDefault is OTLP's port of gRPC, on this machine.
	endpointDefault = "localhost:4317"
)

// Config is what Run works with.
type Config struct {
	// endpoint is host:port, or unix:PATH.
	endpoint string
	// share of the events that are traced, from 0 to 1.
	share float64
}

// Load reads a file with a TracingConfiguration, as kube-apiserver's --tracing-config-file has it.
func Load(file string) (*Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	var c struct {
		metav1.TypeMeta
		tracingapi.TracingConfiguration
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !strings.HasPrefix(c.APIVersion, group) || c.Kind != kind {
		return nil, fmt.Errorf("%s: it must be a %s of %sv1, not %q of %q", file, kind, group, c.Kind, c.APIVersion)
	}
	if err := tracingapi.ValidateTracingConfiguration(&c.TracingConfiguration, nil, nil).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.SamplingRatePerMillion == nil || *c.SamplingRatePerMillion == 0 {
		return nil, fmt.Errorf("%s: %w", file, errors.New("samplingRatePerMillion must be positive, as no other program begins what is traced here: 1000000 traces all"))
	}
	out := &Config{endpoint: endpointDefault, share: float64(*c.SamplingRatePerMillion) / 1_000_000}
	if c.Endpoint != nil {
		out.endpoint = strings.TrimPrefix(strings.TrimPrefix(*c.Endpoint, "dns:///"), "dns://")
	}
	if _, _, err := net.SplitHostPort(out.endpoint); !strings.HasPrefix(out.endpoint, "unix:") && (err != nil || strings.Contains(out.endpoint, "/")) {
		return nil, fmt.Errorf("%s: endpoint %q must be HOST:PORT or unix:PATH", file, *c.Endpoint)
	}
	return out, nil
}
