package access

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPages(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		answers []metav1.ListMeta
		err     error
		want    error
		asked   []string
	}{
		"one page":              {answers: []metav1.ListMeta{{ResourceVersion: "1"}}, asked: []string{""}},
		"two pages":             {answers: []metav1.ListMeta{{ResourceVersion: "1", Continue: "more"}, {ResourceVersion: "1"}}, asked: []string{"", "more"}},
		"no API server":         {answers: []metav1.ListMeta{{}}, want: errNoList, asked: []string{""}},
		"its second page is no": {answers: []metav1.ListMeta{{ResourceVersion: "1", Continue: "more"}, {}}, want: errNoList, asked: []string{"", "more"}},
		"the same page again":   {answers: []metav1.ListMeta{{ResourceVersion: "1", Continue: "more"}, {ResourceVersion: "1", Continue: "more"}}, want: errNoEnd, asked: []string{"", "more"}},
		"an error":              {err: broken, want: broken, asked: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			err := Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
				asked = append(asked, o.Continue)
				if tt.err != nil {
					return nil, tt.err
				}
				return &tt.answers[len(asked)-1], nil
			})
			if !errors.Is(err, tt.want) || !slices.Equal(asked, tt.asked) {
				t.Errorf("pages %q, %v; want %q, %v", asked, err, tt.asked, tt.want)
			}
		})
	}
}

func TestPagesWithoutEnd(t *testing.T) {
	asked := 0
	err := Pages(func(metav1.ListOptions) (metav1.ListInterface, error) {
		asked++
		return &metav1.ListMeta{ResourceVersion: "1", Continue: strconv.Itoa(asked)}, nil
	})
	if !errors.Is(err, errNoEnd) || asked != maxPages {
		t.Errorf("%v after %d pages", err, asked)
	}
}
