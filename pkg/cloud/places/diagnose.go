package places

import (
	"context"
	"errors"
	"fmt"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// diagnose implements cloud.Provider.Diagnose, place by place, also where one of them fails.
func (j *joined) diagnose(ctx context.Context) (out cloud.Diagnosis, err error) {
	var errs []error
	for _, p := range j.all {
		if p.Diagnose == nil {
			continue
		}
		where := j.words.Place + " " + p.Name
		found, err := p.Diagnose(ctx)
		for _, x := range found.Problems {
			x.Object = where + ": " + x.Object
			out.Problems = append(out.Problems, x)
		}
		for _, x := range found.Unseen {
			out.Unseen = append(out.Unseen, x+" ("+where+")")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	return out, errors.Join(errs...)
}
