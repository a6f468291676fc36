// Package status tells what a replica knows of its work: Nodes, load balancers, routes and volumes with those that wait, what its
// queues hold, how often the cloud may be asked, and the last errors, as a page and as JSON. It reads the informers' caches, the metrics
// and what it was told; neither the cloud nor the API server is asked.
package status

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/text"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

const (
	// maxRows is how many rows a list shows, those that wait first; the others are counted.
	maxRows = 500
	// maxText is how many bytes of a name or an address are shown, maxMessage of an error.
	maxText, maxMessage = 256, 500
)

// Source is where a snapshot is taken from. Fields that may be nil or false say that there is nothing of that.
type Source struct {
	// Leader returns the identity of the replica that leads, as far as is known, and whether it is this one.
	Leader func() (identity string, leads bool)
	// Nodes, Services and Volumes are caches; nil where they are not watched.
	Nodes    corelisters.NodeLister
	Services corelisters.ServiceLister
	Volumes  corelisters.PersistentVolumeLister
	// Owns reports whether the cloud answers for a Node, Labels whether a PersistentVolume gets the labels of its place; nil stands for all.
	Owns   func(*corev1.Node) bool
	Labels func(*corev1.PersistentVolume) bool
	// Routes says that Nodes with pod CIDRs get routes.
	Routes bool
	// Traffic is how often the cloud may be asked; nil where that is not known.
	Traffic func() []caller.Family
	// Metrics are those that the process counts; nil for none.
	Metrics prometheus.Gatherer
	// Errors may be nil.
	Errors *Errors
	// Now is the clock.
	Now func() time.Time
}

// Snapshot is what one replica knew at one time.
type Snapshot struct {
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	Leader  string    `json:"leader"`
	Leads   bool      `json:"leads"`
	// The Details of these are provider IDs, addresses, pod CIDRs, and zones with regions.
	Nodes         List[Object] `json:"nodes"`
	LoadBalancers List[Object] `json:"loadBalancers"`
	Routes        List[Object] `json:"routes"`
	Volumes       List[Object] `json:"volumes"`
	Queues        List[Queue]  `json:"queues"`
	Traffic       List[Family] `json:"traffic"`
	Webhooks      List[Metric] `json:"webhooks"`
	Metrics       List[Metric] `json:"metrics"`
	Errors        List[Error]  `json:"errors"`
}

// List is bounded: Total counts all, Waiting those that are not done, More those that are not among the Items.
type List[T any] struct {
	Total   int `json:"total"`
	Waiting int `json:"waiting"`
	More    int `json:"more"`
	Items   []T `json:"items"`
}

// MarshalJSON writes a list without items as an empty one.
func (l List[T]) MarshalJSON() ([]byte, error) {
	type plain List[T]
	if l.Items == nil {
		l.Items = []T{}
	}
	return json.Marshal(plain(l))
}

// UnmarshalJSON keeps as many items as a replica shows and counts the others, so that a list costs its reader no more, whoever has written it.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	var in struct {
		Total, Waiting, More int
		Items                json.RawMessage
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*l = List[T]{Total: in.Total, Waiting: in.Waiting, More: in.More}
	d := json.NewDecoder(bytes.NewReader(in.Items))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return nil //nolint:nilerr // it has none
	}
	var left json.RawMessage
	for d.More() {
		if len(l.Items) == maxRows {
			l.More++
			if err := d.Decode(&left); err != nil {
				return err
			}
			continue
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		l.Items = append(l.Items, item)
	}
	return nil
}

// Object is one of the cluster on which there is, or was, something to be done.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Detail    string `json:"detail"`
	State     string `json:"state"`
	// Waits says that something is to be done.
	Waits bool `json:"waits"`
}

// Queue is a controller's: Depth keys wait to be worked on, and the one that is worked on for longest is so for LongestSeconds.
type Queue struct {
	Name           string  `json:"name"`
	Depth          int     `json:"depth"`
	LongestSeconds float64 `json:"longestSeconds"`
}

// Family is what the cloud throttles together at one place. It waits while it is shut or its rate is limited.
type Family struct {
	Family string `json:"family"`
	Place  string `json:"place"`
	// PerSecond is how many requests were sent in the last second, Limit how many may be: 0 is no limit.
	PerSecond int     `json:"perSecond"`
	Limit     float64 `json:"limit"`
	// ShutUntil is until when the cloud has asked not to be asked.
	ShutUntil *time.Time `json:"shutUntil,omitempty"`
}

// Metric is a series that tells something.
type Metric struct {
	Metric string  `json:"metric"`
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// Take returns a snapshot. What fails is left out: a page in need shows what there is.
func (s Source) Take() Snapshot {
	out := Snapshot{Time: s.Now().UTC(), Version: version.String(),
		Nodes: s.nodes(), LoadBalancers: s.balancers(), Routes: s.routes(), Volumes: s.volumes(), Traffic: s.traffic(), Errors: s.Errors.list()}
	out.Leader, out.Leads = s.Leader()
	out.Leader = text.Line(out.Leader, maxText)
	m := s.gather()
	out.Queues, out.Webhooks, out.Metrics = m.queues(), m.webhooks(), m.counted()
	return out
}

func (s Source) traffic() List[Family] {
	var rows []Family
	if s.Traffic != nil {
		for _, f := range s.Traffic() {
			row := Family{Family: text.Line(f.Name, maxText), Place: text.Line(f.Place, maxText), PerSecond: f.PerSecond, Limit: f.Limit}
			if !f.ShutUntil.IsZero() {
				until := f.ShutUntil.UTC()
				row.ShutUntil = &until
			}
			rows = append(rows, row)
		}
	}
	waits := func(f Family) bool { return f.ShutUntil != nil || f.Limit > 0 }
	slices.SortFunc(rows, func(a, b Family) int {
		return cmp.Or(waitsFirst(waits(a), waits(b)), strings.Compare(a.Family, b.Family), strings.Compare(a.Place, b.Place))
	})
	return bounded(rows, waits)
}

func waitsFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func bounded[T any](rows []T, waits func(T) bool) List[T] {
	shown := rows[:min(len(rows), maxRows)]
	out := List[T]{Total: len(rows), More: len(rows) - len(shown), Items: slices.Clone(shown)}
	for _, r := range rows {
		if waits(r) {
			out.Waiting++
		}
	}
	return out
}
