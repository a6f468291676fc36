package places

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Each place is looked at, also after one that fails, and what is found says where.
func TestDiagnose(t *testing.T) {
	broken := errors.New("down")
	place := func(name string, err error) Place {
		return Place{Name: name, Provider: &cloud.Provider{Diagnose: func(context.Context) (cloud.Diagnosis, error) {
			return cloud.Diagnosis{Problems: []cloud.Problem{{Object: "network n", What: "w", Next: "x"}}, Unseen: []string{"quotas"}}, err
		}}}
	}
	j := joined{words: Words{Place: "site"}, all: []Place{place("here", broken), {Name: "none", Provider: &cloud.Provider{}}, place("there", nil)}}
	got, err := j.diagnose(t.Context())
	want := cloud.Diagnosis{
		Problems: []cloud.Problem{{Object: "site here: network n", What: "w", Next: "x"}, {Object: "site there: network n", What: "w", Next: "x"}},
		Unseen:   []string{"quotas (site here)", "quotas (site there)"},
	}
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, broken) || err.Error() != "site here: down" {
		t.Errorf("(-want +got)\n%s%v", diff, err)
	}
}
