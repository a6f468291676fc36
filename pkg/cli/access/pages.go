package access

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// PageSize is how many objects are read at a time.
	PageSize = 500
	// maxPages bounds a list at a million objects, several times as many as Kubernetes is made for.
	maxPages = 2000
)

var errNoList = errors.New("the answer is no list: is something else in the place of the API server?")

var errNoEnd = errors.New("its pages do not end: is something else in the place of the API server?")

// Pages calls list with the options of one page after the other, until there are no more. An answer without a resource version is an
// error: something that is no API server reads like an empty list. So are pages that do not end.
func Pages(list func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	o := metav1.ListOptions{Limit: PageSize}
	for range maxPages {
		page, err := list(o)
		if err != nil {
			return err
		}
		if page.GetResourceVersion() == "" {
			return errNoList
		}
		next := page.GetContinue()
		switch next {
		case "":
			return nil
		case o.Continue:
			return errNoEnd
		}
		o.Continue = next
	}
	return errNoEnd
}
