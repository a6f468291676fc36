package access

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageSize is how many objects are read at a time.
const PageSize = 500

var errNoList = errors.New("the answer is no list: is something else in the place of the API server?")

// Pages calls list with the options of one page after the other, until there are no more. An answer without a resource version is an
// error: something that is no API server reads like an empty list.
func Pages(list func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	o := metav1.ListOptions{Limit: PageSize}
	for {
		page, err := list(o)
		if err != nil {
			return err
		}
		if page.GetResourceVersion() == "" {
			return errNoList
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}
