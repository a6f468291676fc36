package pvlabel

import (
	"errors"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A refusal says of what sort it is: a client tells by the reason whether its request was wrong.
func TestReasonOfARefusal(t *testing.T) {
	for code, want := range map[int32]metav1.StatusReason{http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable} {
		resp := refuse(code, errors.New("no"))
		if resp.Allowed || resp.Result.Code != code || resp.Result.Status != metav1.StatusFailure || resp.Result.Reason != want || resp.Result.Message != "no" {
			t.Errorf("%d: %+v", code, resp.Result)
		}
	}
}
